"""The project's own catalogue: no path of its targets is missing in it, and none in it is gone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from chaos.cli.paths import inventory_of
from chaos.gate import Question, decide
from chaos.load.gate import load_catalogue

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_every_path_is_in_the_catalogue_or_waived_and_none_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    catalogue = load_catalogue(os.path.join("ci", "recovery_paths.yaml"))
    inventories = tuple(inventory_of(file) for file in catalogue.targets)
    declared = {f"{i.target}:{path.name}" for i in inventories for path in i.paths}
    assert len(declared) >= 54
    assert declared == {entry.name for entry in catalogue.entries} | {waiver.path for waiver in catalogue.waivers}
    decision = decide(Question(catalogue=catalogue, inventories=inventories, builds={}, runs=(), now=0.0))
    reasons = {ruling.why.reason for ruling in decision.blocked if ruling.why}
    assert reasons == {"untested"}
