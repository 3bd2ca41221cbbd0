"""What holds for every invariant that is built in."""

from __future__ import annotations

import importlib
import pkgutil
import random

import pytest
from judge.histories import killed_and_restarted

import chaos.invariants
from chaos.api import Invariant
from chaos.history import History
from chaos.verdict import Outcome


def built_in() -> list[Invariant]:
    found = []
    for info in pkgutil.iter_modules(chaos.invariants.__path__):
        module = importlib.import_module(f"chaos.invariants.{info.name}")
        name = "".join(word.capitalize() for word in info.name.split("_"))
        found.append(getattr(module, name)())
    return found


INVARIANTS = built_in()


def test_the_catalogue_of_training_is_complete() -> None:
    numbers = sorted(int(i.id[1:]) for i in INVARIANTS)
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) >= 13


@pytest.mark.parametrize("invariant", INVARIANTS, ids=lambda i: i.id)
def test_nothing_on_record_is_unknown(invariant: Invariant) -> None:
    assert invariant.check(History()).outcome is Outcome.UNKNOWN


@pytest.mark.parametrize("invariant", INVARIANTS, ids=lambda i: i.id)
def test_a_right_run_never_fails(invariant: Invariant) -> None:
    assert invariant.check(killed_and_restarted().history).outcome is not Outcome.FAIL


@pytest.mark.parametrize("invariant", INVARIANTS, ids=lambda i: i.id)
def test_evidence_is_on_record_and_in_order(invariant: Invariant) -> None:
    history = killed_and_restarted().history
    evidence = invariant.check(history).evidence
    assert list(evidence) == sorted(set(evidence))
    assert set(evidence) <= {e.seq for e in history}


@pytest.mark.parametrize("seed", range(10))
def test_a_record_with_holes_is_judged_all_the_same(seed: int) -> None:
    dice = random.Random(seed)
    events = [e for e in killed_and_restarted().events if dice.random() > 0.2]
    for invariant in INVARIANTS:
        invariant.check(History(events))


@pytest.mark.parametrize("cut", [0.1, 0.3, 0.5, 0.6, 0.7, 0.9])
def test_a_right_run_that_is_cut_off_anywhere_never_fails(cut: float) -> None:
    events = killed_and_restarted().events
    for invariant in INVARIANTS:
        verdict = invariant.check(History(events[: int(len(events) * cut)]))
        assert verdict.outcome is not Outcome.FAIL, f"{invariant.id}: {verdict.reason}"
