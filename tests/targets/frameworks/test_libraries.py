"""Families of one library each: their experiments can be planned, and their files say the same as their programs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from chaos.load import load_experiment
from chaos.plan import plan
from ci.proof import cells

ROOT = Path(__file__).parents[3]
TARGETS, EXPERIMENTS = ROOT / "targets" / "frameworks", ROOT / "experiments" / "frameworks"
FAMILIES = ("huggingface", "lightning", "loaders")


def declared(family: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((TARGETS / family / "target.yaml").read_text())
    return loaded


def experiments(family: str) -> list[Path]:
    return [p for p in sorted(EXPERIMENTS.glob("*.yaml")) if f"frameworks/{family}/" in p.read_text()]


def sources(family: str) -> str:
    return "\n".join(p.read_text() for p in [*(TARGETS / family).glob("*.py"), TARGETS / "launcher.py"])


@pytest.mark.parametrize("path", [p for f in FAMILIES for p in experiments(f)], ids=lambda p: p.stem)
def test_an_experiment_can_be_planned_with_each_library_of_the_table(path: Path) -> None:
    variants = [c.defect for c in cells() if c.experiment == f"frameworks/{path.stem}"]
    assert None in variants
    assert len(variants) > 1
    for variant in variants:
        overrides = dict([variant.split("=")]) if variant else {}
        loaded = load_experiment(path, overrides=overrides)
        schedule = plan(loaded, 1)
        assert len(schedule.actions) == len(loaded.method)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_experiment_is_in_the_readme_of_its_family(family: str) -> None:
    said = set(re.findall(r"^\|[^|]*\| `([a-z_0-9]+)` \|", (TARGETS / family / "README.md").read_text(), re.MULTILINE))
    assert said == {p.stem for p in experiments(family)}


@pytest.mark.parametrize("family", FAMILIES)
def test_what_the_programs_emit_is_declared_and_the_other_way_round(family: str) -> None:
    emitted = set(re.findall(r'emit\(\s*"([a-z]+\.[a-z_]+)"', sources(family)))
    assert emitted == set(declared(family)["events"])
    assert set(re.findall(r'\bpoint\("([a-z_.]+)"', sources(family))) == set(declared(family)["points"])


@pytest.mark.parametrize("family", FAMILIES)
def test_every_setting_is_read_and_every_choice_is_known(family: str) -> None:
    target = declared(family)
    for setting in target["settings"]:
        assert f'"{setting}"' in sources(family) or f"${{{setting}}}" in str(target["members"]), setting
    for case in target["choices"].get("case", []):
        assert case in ("none", "yesterday", "default-sampler") or f'"{case}"' in sources(family), case
