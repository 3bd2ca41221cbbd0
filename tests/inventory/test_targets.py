"""The targets of this repository keep what the inventory asks of others."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from chaos.cli.paths import inventory_of

TARGETS = sorted(Path(__file__).parents[2].glob("targets/**/target.yaml"))


@pytest.mark.parametrize("file", TARGETS, ids=lambda path: path.parent.name)
def test_a_target_declares_what_it_lists_and_nothing_else(file: Path) -> None:
    inventory = inventory_of(file)
    assert inventory.problems == ()
    assert [str(handler.spot) for handler in inventory.undeclared] == []
    listed = yaml.safe_load(file.read_text()).get("recovery-paths", [])
    assert [path.name for path in inventory.paths] == sorted(listed)
    assert all(path.declared and path.listed for path in inventory.paths)


def test_the_reference_targets_have_many() -> None:
    counts = {file.parent.name: len(inventory_of(file).paths) for file in TARGETS}
    assert counts["trainer"] >= 28
    assert counts["serving"] >= 25
