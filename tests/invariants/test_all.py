"""What holds for every invariant that is built in."""

from __future__ import annotations

import importlib
import pkgutil
import random
from collections.abc import Callable

import pytest
from judge.histories import Tape, killed_and_restarted
from judge.serving_histories import control, killed_and_back

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
RIGHT: dict[str, dict[str, Callable[[], Tape]]] = {
    "T": {"": killed_and_restarted},
    "S": {"-killed": killed_and_back, "-nothing-broken": control},
}
CASES = [pytest.param(i, make(), id=f"{i.id}{name}") for i in INVARIANTS for name, make in RIGHT[i.id[0]].items()]
right = pytest.mark.parametrize(("invariant", "tape"), CASES)


@pytest.mark.parametrize(("family", "least"), [("T", 13), ("S", 12)])
def test_the_catalogue_is_complete(family: str, least: int) -> None:
    numbers = sorted(int(i.id[1:]) for i in INVARIANTS if i.id[0] == family)
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) >= least


@pytest.mark.parametrize("invariant", INVARIANTS, ids=lambda i: i.id)
def test_nothing_on_record_is_unknown(invariant: Invariant) -> None:
    assert invariant.check(History()).outcome is Outcome.UNKNOWN


@right
def test_a_right_run_never_fails(invariant: Invariant, tape: Tape) -> None:
    assert invariant.check(tape.history).outcome is not Outcome.FAIL


@right
def test_evidence_is_on_record_and_in_order(invariant: Invariant, tape: Tape) -> None:
    history = tape.history
    evidence = invariant.check(history).evidence
    assert list(evidence) == sorted(set(evidence))
    assert set(evidence) <= {e.seq for e in history}


@right
@pytest.mark.parametrize("seed", range(10))
def test_a_record_with_holes_is_judged_all_the_same(invariant: Invariant, tape: Tape, seed: int) -> None:
    dice = random.Random(seed)
    invariant.check(History(e for e in tape.events if dice.random() > 0.2))


@right
@pytest.mark.parametrize("cut", [0.1, 0.3, 0.4, 0.5, 0.6, 0.7, 0.9])
def test_a_right_run_that_is_cut_off_anywhere_never_fails(invariant: Invariant, tape: Tape, cut: float) -> None:
    events = tape.events
    verdict = invariant.check(History(events[: int(len(events) * cut)]))
    assert verdict.outcome is not Outcome.FAIL, verdict.reason
