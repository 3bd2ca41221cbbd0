"""target.yaml repeats what the code says; these tests keep the two together."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from targets.trainer.defects import DEFECTS
from targets.trainer.settings import Settings

TRAINER = Path(__file__).parents[3] / "targets" / "trainer"


@pytest.fixture(scope="module")
def declared() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((TRAINER / "target.yaml").read_text())
    return loaded


@pytest.fixture(scope="module")
def sources() -> str:
    return "\n".join(path.read_text() for path in TRAINER.rglob("*.py"))


def test_settings_and_their_defaults_are_those_of_the_code(declared: dict[str, Any]) -> None:
    assert declared["settings"] == msgspec.to_builtins(Settings())


def test_every_defect_can_be_chosen(declared: dict[str, Any]) -> None:
    assert declared["choices"]["defect"] == ["none", *DEFECTS]


def test_every_event_of_the_code_is_declared_and_every_declared_one_exists(
    declared: dict[str, Any], sources: str
) -> None:
    emitted = set(re.findall(r'emit\(\s*"([a-z]+\.[a-z_]+)"', sources))
    assert emitted <= set(declared["events"])
    assert {kind for kind in declared["events"] if f'"{kind}"' not in sources} <= {"path.entered", "path.exercised"}


def test_every_failpoint_of_the_code_is_declared_and_every_declared_one_exists(
    declared: dict[str, Any], sources: str
) -> None:
    assert all(f'"{point}"' in sources for point in declared["points"])
    assert set(re.findall(r'\bpoint\("([a-z_.]+)"', sources)) <= set(declared["points"])
