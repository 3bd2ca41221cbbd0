"""The dice: one seed, the whole mix, nothing that is hidden."""

from __future__ import annotations

import statistics
from collections import Counter
from itertools import pairwise

import pytest

from chaos.gameday.agenda import LLAMA3, LLAMA3_RATE, draw
from chaos.gameday.terms import Draw, Plan

from .fakes import piece, plan


def drawn(count: int = 12, seed: int | None = 7, **more: object) -> Plan:
    fields: dict[str, object] = {
        "mix": {"gpu": 3.0, "network": 1.0, "ssd": 1.0}, "stands_for": {"gpu": (0, 1), "network": (2,)}, **more,
    }  # fmt: skip
    return plan("a", "b", "c", draw=Draw(count=count, seed=seed, **fields))  # type: ignore[arg-type]


def test_the_same_seed_is_the_same_day() -> None:
    assert draw(drawn(), 1) == draw(drawn(), 2)
    assert draw(drawn(seed=None), 1) != draw(drawn(seed=None), 2)
    assert draw(drawn(seed=None), 7) == draw(drawn(seed=7), 99)


def test_categories_come_as_often_as_their_weights_say() -> None:
    agenda = draw(drawn(count=4000), 1)
    found = Counter(turn.category for turn in agenda.turns)
    assert found["gpu"] / 4000 == pytest.approx(0.75, abs=0.03)
    assert {turn.piece.name for turn in agenda.turns if turn.category == "gpu"} == {"a", "b"}
    assert len(agenda.uncovered) == pytest.approx(1000, rel=0.15), "a fifth of all, beside those that are run"


def test_categories_without_an_experiment_are_told_with_their_share() -> None:
    agenda = draw(drawn(), 1)
    assert agenda.silent == {"ssd": 0.2}
    assert {lot.category for lot in agenda.uncovered} <= {"ssd"}


def test_categories_that_were_not_drawn_are_told() -> None:
    rare = drawn(count=5, mix={"gpu": 1.0, "network": 0.0})
    assert draw(rare, 1).never == ("network",)


def test_poisson_arrivals_have_the_rate_divided_by_the_acceleration() -> None:
    agenda = draw(drawn(count=4000, rate=LLAMA3_RATE, accelerate=1000.0), 1)
    dues = sorted([turn.due or 0.0 for turn in agenda.turns] + [lot.due or 0.0 for lot in agenda.uncovered])
    gaps = [later - earlier for earlier, later in pairwise(dues)]
    expected = 54 * 86400 / 419 / 1000
    assert statistics.mean(gaps) == pytest.approx(expected, rel=0.05)
    assert statistics.stdev(gaps) == pytest.approx(expected, rel=0.08), "exponential: as wide as its mean"


def test_every_turn_has_a_seed_of_its_own() -> None:
    assert len({turn.seed for turn in draw(drawn(), 1).turns}) == 12


def test_a_ladder_puts_lower_rungs_first_and_leaves_the_due_times() -> None:
    pieces = (piece("r", "rack"), piece("m"), piece("n", "node"))
    lot = Draw(count=30, mix={"x": 1.0}, stands_for={"x": (0, 1, 2)}, rate=0.001, seed=2)
    flat, high = (draw(plan(pieces=pieces, draw=lot, ladder=rungs), 0) for rungs in ((), ("member", "node", "rack")))
    assert [turn.due for turn in flat.turns] == [turn.due for turn in high.turns]
    rungs = [turn.piece.rung for turn in high.turns]
    assert rungs == sorted(rungs, key=["member", "node", "rack"].index)
    assert [turn.number for turn in high.turns] == list(range(1, 31))


def test_a_list_is_run_as_it_stands_with_the_seeds_of_its_files() -> None:
    agenda = draw(plan("a", "b"), 5)
    assert [(turn.number, turn.piece.name, turn.seed) for turn in agenda.turns] == [(1, "a", 7), (2, "b", 7)]


def test_the_mix_of_llama_3_is_the_published_one() -> None:
    assert sum(LLAMA3.values()) == 419
    assert LLAMA3["faulty-gpu"] == 148
    assert round(LLAMA3_RATE * 86400, 2) == 7.76
