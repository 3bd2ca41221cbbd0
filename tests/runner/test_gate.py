"""Nothing is injected before the steady state is met."""

from __future__ import annotations

from typing import Any

import pytest

from chaos.experiment import Mode

from .fakes import LOG, Play, experiment, runs_for, steady, step

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("gauge", "reason"),
    [
        ({"read": 0.1}, "last value 0.1, 0 of 3 in a row met the bound"),
        ({"read": None}, "no data"),
        ({"read": ValueError("no such metric")}, "ValueError: no such metric"),
        ({"read": float("nan")}, "not a finite number: nan"),
        ({"read": True}, "not a finite number: True"),
        ({"read": "1.0"}, "not a finite number: '1.0'"),
        ({"read": 1.0, "takes": 0.7}, "late"),
        ({"read": lambda now: 1.0 if now % 1.5 else 0.0}, "last value"),
    ],
)
async def test_a_steady_state_that_is_not_met_injects_nothing(play: Play, gauge: Any, reason: str) -> None:
    it = experiment(step(), steady=(steady(**gauge),), limits={"baseline": 20.25})
    result, history = await play(it)
    assert result.reason == "limit"
    assert LOG == ["closed"]
    assert reason in history.of("baseline.missed")[0].get("gauge")
    assert not history.of("method.started", "fault.armed")


async def test_a_steady_state_needs_three_samples_in_a_row(play: Play) -> None:
    values = iter([1.0, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0])
    it = experiment(step(), steady=(steady(read=lambda _: next(values, 1.0), every=1.0),))
    _, history = await play(it)
    assert history.of("method.started")[0].t == 5.0
    assert history.of("baseline.met")[0].data == {"gauge": [1.0, 1.0, 1.0]}


async def test_a_bound_of_the_baseline_needs_data_only(play: Play) -> None:
    it = experiment(step(), steady=(steady(read=0.1, of_baseline=True, mode=Mode.AFTER),))
    _, history = await play(it)
    assert history.of("method.started")[0].t == 1.0


async def test_a_hypothesis_for_later_does_not_gate(play: Play) -> None:
    _, history = await play(experiment(step(), steady=(steady(read=None, mode=Mode.DURING),)))
    assert history.of("method.started")[0].t == 0.0


async def test_a_target_that_finishes_before_its_steady_state_has_nothing_injected(play: Play) -> None:
    result, history = await play(experiment(step(), ends=True, steady=(steady(read=None),)), runs_for(4.0))
    assert result.reason == "finished"
    assert history.of("baseline.missed")
    assert not history.of("fault.armed")
