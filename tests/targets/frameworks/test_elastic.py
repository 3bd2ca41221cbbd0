"""Programs on torchrun and process groups: their experiments can be planned, their files agree, one whole run."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from chaos.load import load_experiment
from chaos.plan import plan
from ci.proof import cells

ROOT = Path(__file__).parents[3]
FAMILY = ROOT / "targets" / "frameworks" / "elastic"
EXPERIMENTS = sorted((ROOT / "experiments" / "frameworks").glob("elastic_*.yaml"))


@pytest.fixture(scope="module")
def declared() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((FAMILY / "target.yaml").read_text())
    return loaded


@pytest.fixture(scope="module")
def sources() -> str:
    return "\n".join(p.read_text() for p in sorted(FAMILY.glob("*.py")))


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda p: p.stem)
def test_an_experiment_can_be_planned_with_each_library_of_the_table(path: Path) -> None:
    variants = [c.defect for c in cells() if c.experiment == f"frameworks/{path.stem}"]
    assert None in variants
    assert "library=guarded" in variants
    for variant in variants:
        loaded = load_experiment(path, overrides=dict([variant.split("=")]) if variant else {})
        assert len(plan(loaded, 1).actions) == len(loaded.method)


def test_every_experiment_is_in_the_readme_and_every_program_is_started_by_one() -> None:
    said = re.findall(r"^\|[^|]*\| `([a-z_0-9]+)` \|", (FAMILY / "README.md").read_text(), re.MULTILINE)
    assert sorted(said) == [p.stem for p in EXPERIMENTS]
    for path in EXPERIMENTS:
        program = yaml.safe_load(path.read_text())["settings"].get("program", "train")
        assert (FAMILY / f"{program}.py").exists()


def test_what_the_programs_emit_is_declared_and_the_other_way_round(declared: dict[str, Any], sources: str) -> None:
    assert set(re.findall(r'emit\(\s*"([a-z]+\.[a-z_]+)"', sources)) == set(declared["events"])
    assert set(re.findall(r'\bpoint\("([a-z_.]+)"', sources)) == set(declared["points"])


def test_every_setting_is_read(declared: dict[str, Any], sources: str) -> None:
    placed = str([declared[part] for part in ("nodes", "members", "announced")])
    for setting in declared["settings"]:
        read = (
            f'SETTINGS["{setting}"]' in sources or f"SETTINGS['{setting}']" in sources or f'get("{setting}"' in sources
        )
        assert read or f"${{{setting}}}" in placed or f"'for-each': '{setting}'" in placed, setting


@pytest.mark.slow
def test_a_frozen_rank_is_noticed_by_a_group_with_a_timeout(tmp_path: Path) -> None:
    path = ROOT / "experiments" / "frameworks" / "elastic_rank_frozen.yaml"
    command = [sys.executable, "-m", "chaos", "run", str(path), "-q", "--out", str(tmp_path)]
    done = subprocess.run(
        [*command, "--set", "library=guarded", "--set", "timeout=4"],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    events = [json.loads(line) for line in (tmp_path / "latest" / "journal.jsonl").read_text().splitlines()]
    noticed = [(e["source"], e["data"]["member"]) for e in events if e["kind"] == "failure.detected"]
    assert noticed[0] == ("rank-0", "rank-1")  # the thawed one may notice afterwards that the other has gone
