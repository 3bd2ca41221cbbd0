"""The experiments with torch.distributed.checkpoint load and plan, and one of them is as the table says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from chaos.load import load_experiment
from chaos.plan import plan
from ci.proof import Cell, Children, cells, run

ROOT = Path(__file__).parents[3]
FAMILY = ROOT / "targets" / "frameworks" / "dcp"
EXPERIMENTS = {path.stem: path for path in (ROOT / "experiments" / "frameworks").glob("dcp_*.yaml")}
VARIANT = re.compile(r'^VARIANT = "(.+)"$', re.MULTILINE)


def target() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((FAMILY / "target.yaml").read_text())
    return loaded


def program(name: str) -> str:
    """Which program an experiment runs."""
    return str(yaml.safe_load(EXPERIMENTS[name].read_text())["settings"]["program"])


def programs() -> dict[str, str]:
    """Each program, and the way beside `installed` that it knows. They import torch, which takes seconds."""
    found = ((path.stem.replace("_", "-"), VARIANT.search(path.read_text())) for path in FAMILY.glob("*.py"))
    return {name: match[1] for name, match in found if match}


@pytest.mark.parametrize("name", sorted(EXPERIMENTS))
def test_an_experiment_loads_and_plans(name: str) -> None:
    assert plan(load_experiment(EXPERIMENTS[name])).actions


@pytest.mark.parametrize("name", sorted(EXPERIMENTS))
def test_an_experiment_is_held_against_both_ways_of_its_program(name: str) -> None:
    other = programs()[program(name)]
    mine = [cell for cell in cells() if cell.experiment == f"frameworks/{name}"]
    assert [cell.defect for cell in mine] == [None, f"library={other}"]
    assert [bool(cell.expected) for cell in mine] == [other == "guarded", other == "as-it-was"]


def test_every_program_can_be_chosen_and_has_an_experiment() -> None:
    used = {program(name) for name in EXPERIMENTS}
    assert set(programs()) == set(target()["choices"]["program"]) == used


def test_every_event_of_the_programs_is_declared() -> None:
    sources = "\n".join(path.read_text() for path in FAMILY.glob("*.py"))
    assert set(re.findall(r'emit\(\s*"([a-z_.]+)"', sources)) == set(target()["events"])
    assert set(re.findall(r'point\(\s*"([a-z_.]+)"', sources)) == set(target()["points"])


def test_the_readme_names_every_experiment() -> None:
    said = (FAMILY / "README.md").read_text()
    assert [name for name in EXPERIMENTS if f"`{name}`" not in said] == []


@pytest.mark.slow
@pytest.mark.timeout(150)  # torch is imported by a process of its own, beside whatever else runs
def test_the_optimizer_that_torch_leaves_empty_is_seen(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    outcome = run(Cell("frameworks/dcp_lazy_optimizer", None, "state-complete"), tmp_path, Children())
    assert outcome.good, outcome.said
