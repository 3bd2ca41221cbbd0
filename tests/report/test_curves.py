from __future__ import annotations

import random

import pytest

from chaos.history import Event, History
from chaos.report.curves import curve, curves, thin, throughput

from .scripted import Script


def test_thinning_keeps_the_extremes_the_first_and_the_last() -> None:
    dice = random.Random(1)
    points = [(i / 1000, dice.gauss(0, 1)) for i in range(100_000)]
    points[70_123] = (70.123, 99.0)
    points[31_007] = (31.007, -99.0)
    kept = thin(points, 0.0, 0.25)
    assert len(kept) <= 4 * 400
    assert {points[70_123], points[31_007], points[0], points[-1]} <= set(kept)
    assert list(kept) == sorted(kept)


def test_every_span_keeps_its_own_extremes() -> None:
    dice = random.Random(2)
    points = [(i / 100, dice.random()) for i in range(10_000)]
    kept = set(thin(points, 0.0, 1.0))
    for second in range(100):
        span = [p for p in points if second <= p[0] < second + 1]
        assert max(span, key=lambda p: p[1]) in kept
        assert min(span, key=lambda p: p[1]) in kept


def test_few_points_stay_as_they_are() -> None:
    points = [(0.0, 1.0), (0.1, 5.0), (0.2, 3.0)]
    assert thin(points, 0.0, 1.0) == tuple(points)


def test_missing_data_and_silence_are_gaps() -> None:
    steady: list[tuple[float, float | None]] = [(i * 0.1, 1.0) for i in range(50)]
    steady[20] = (2.0, None)
    later = [(20 + i * 0.1, 1.0) for i in range(50)]
    found = curve("x", [*steady, *later], 100)
    assert found is not None
    assert [piece[0][0] for piece in found.pieces] == pytest.approx([0.0, 2.1, 20.0])


def test_no_data_is_no_curve() -> None:
    assert curve("x", [], 10) is None
    assert curve("x", [(0.0, None), (1.0, None)], 10) is None


def test_throughput_is_zero_while_nothing_is_completed() -> None:
    tell = Script()
    for i in range(100):
        tell(i * 0.1 + (10 if i >= 50 else 0), "w", "step.completed", step=i, samples=[1, 2, 3])
    rates = dict(throughput(tell.events, 40))
    assert rates[min(rates)] == pytest.approx(30, rel=0.3)
    assert {v for t, v in rates.items() if 6 < t < 14} == {0.0}


def test_throughput_comes_from_steps_only_where_no_probe_has_it(events: list[Event]) -> None:
    assert [c.title for c in curves(History(events))] == ["training.throughput", "loss"]
    bare = History(e for e in events if e.kind != "probe.sampled")
    assert [c.title for c in curves(bare)] == ["throughput (samples per second)", "loss"]


@pytest.mark.parametrize("loss", ["nan", "inf", "none", None, [1], 10**400])
def test_a_loss_that_is_no_number_is_left_out(loss: object) -> None:
    tell = Script()
    tell(0.0, "w", "step.completed", step=1, loss=loss)
    assert all(c.title != "loss" for c in curves(History(tell.events)))
