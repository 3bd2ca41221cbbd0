"""What clients of a serving stack saw, drawn over time: where it counts, and that no extreme is lost."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from chaos.history import Event, History
from chaos.report.charts import charts
from chaos.report.curves import Curve, Point
from chaos.report.drawing import timeline
from chaos.report.page import Background, encode
from chaos.report.panels import Panel, panels

from .scripted import Script, partition_run, result_of, serving_run
from .test_page import Tree


@pytest.fixture
def served() -> History:
    return History(serving_run())


def panel(history: History, word: str) -> Panel:
    return next(p for p in panels(history) if word in p.title)


def points(panel: Panel, name: str) -> list[Point]:
    found: Curve = next(c for c in panel.curves if c.title == name)
    return [point for piece in found.pieces for point in piece]


def between(found: list[Point], low: float, high: float) -> list[float]:
    return [v for t, v in found if low <= t < high]


def test_a_run_without_requests_has_no_panels() -> None:
    assert panels(History(partition_run())) == ()
    assert panels(History()) == ()


def test_latency_stands_where_the_request_was_meant_to_begin(served: History) -> None:
    latency = panel(served, "latency")
    assert latency.log
    assert set(between(points(latency, "p99"), 4.3, 4.6)) == {2.0}
    assert set(between(points(latency, "p50"), 4.8, 7.1)) == {0.05}
    assert max(between(points(latency, "p99"), 5.0, 9.0)) == 0.05  # though answers came two seconds late


def test_one_slow_request_among_many_is_seen(served: History) -> None:
    latency = panel(served, "latency")
    assert 0.7 in between(points(latency, "slowest"), 9.0, 9.4)
    assert set(between(points(latency, "p50"), 9.0, 9.4)) == {0.01}


def test_a_quick_refusal_does_not_make_the_service_look_fast(served: History) -> None:
    assert min(between(points(panel(served, "latency"), "p50"), 5.0, 7.0)) == 0.05


def test_errors_and_refusals_are_shares_of_what_was_asked(served: History) -> None:
    errors = panel(served, "without an answer")
    assert set(between(points(errors, "errors"), 4.3, 4.6)) == {1.0}
    assert set(between(points(errors, "errors"), 5.0, 9.0)) == {0.0}
    shed = between(points(errors, "shed"), 5.0, 7.0)
    assert sum(shed) / len(shed) == pytest.approx(0.1, abs=0.02)


def test_degradation_is_told_by_tier(served: History) -> None:
    degraded = panel(served, "degraded")
    assert set(between(points(degraded, "secondary"), 4.9, 7.0)) == {1.0}
    assert set(between(points(degraded, "secondary"), 7.4, 10.0)) == {0.0}
    assert set(between(points(degraded, "static"), 0.0, 10.0)) == {0.0}
    assert set(between(points(degraded, "primary, not all features live"), 7.4, 8.0)) == {1.0}
    assert between(points(degraded, "secondary"), 4.35, 4.6) == []  # nothing was answered: no share of nothing


def test_what_is_asked_and_what_is_answered_in_time_are_rates(served: History) -> None:
    rates = panel(served, "a second")
    asked, answered = (points(rates, name) for name in ("asked", "answered in time"))
    assert between(asked, 1.0, 9.0) == pytest.approx(
        [100.0] * len(between(asked, 1.0, 9.0)), abs=21
    )  # a turn now and then
    assert set(between(answered, 4.3, 4.6)) == {0.0}


def test_where_requests_were_sent_is_told_by_replica_and_by_their_start() -> None:
    tell = Script()
    for i in range(1000):
        replica = "replica-0" if i % 2 or 400 <= i < 700 else "replica-1"
        tell(i / 100 + 0.5, "router", "attempt.completed", id=f"r{i}", replica=replica, seconds=0.5, status=200)
        tell(i / 100 + 0.6, "load", "request.completed", id=f"r{i}", status=200, latency=0.6, tier="primary")
    attempts = panel(History(tell.events), "by replica")
    dead = points(attempts, "replica-1")
    assert set(between(dead, 4.3, 6.7)) == {0.0}
    assert between(dead, 7.5, 9.5) == pytest.approx([50.0] * len(between(dead, 7.5, 9.5)), abs=5)
    tell.events = [msgspec.structs.replace(e, data={**e.data, "replica": f"r{e.seq}"}) for e in tell.events]
    assert not any("by replica" in p.title for p in panels(History(tell.events)))


def test_streams_have_their_first_token(served: History) -> None:
    assert {v for _, v in points(panel(served, "first token"), "p50")} == {0.03}


def test_the_mistakes_of_clients_and_what_is_no_number_are_left_out() -> None:
    tell = Script()
    values: list[Any] = [0.1, None, "0.1", float("nan"), float("inf"), -1.0]
    for i, value in enumerate(values):
        tell(1.0 + i, "load", "request.completed", id=f"r{i}", status=200, latency=value, tier="primary")
    tell(2.0, "load", "request.completed", id="w", status=400, latency=0.1, wrong=True)
    found = panel(History(tell.events), "without an answer")
    assert len(points(found, "errors")) == 1


def test_many_requests_are_few_points(served: History) -> None:
    tell = Script()
    for i in range(20_000):
        tell(i / 300, "load", "request.completed", id=f"r{i}", status=200, latency=0.01 + (i == 7777), tier="primary")
    for found in panels(History(tell.events)):
        assert all(len(piece) <= 250 for c in found.curves for piece in c.pieces)
    assert max(v for _, v in points(panel(History(tell.events), "latency"), "slowest")) == 1.01


def test_panels_are_drawn_before_the_curves_with_decades_and_names(served: History) -> None:
    drawn = charts(served, timeline(served), {})
    assert [len(c.layers) for c in drawn] == [3, 3, 2, 2, 4]
    assert [label.text for label in drawn[0].labels] == ["10 ms", "100 ms", "1.0 s", "10.0 s"]
    assert all(label.rule for label in drawn[0].labels)
    assert [label.text for label in drawn[3].labels] == ["100 %", "0 %"]
    for chart in drawn:
        for layer in chart.layers:
            for line in layer.lines:
                ys = [float(pair.partition(",")[2]) for pair in line.split()]
                assert all(4 <= y <= 106 for y in ys)


def test_the_page_shows_them_under_the_fault() -> None:
    events: list[Event] = serving_run()
    tree = Tree(encode(result_of(events), History(events), Background()))
    assert len(tree.with_class("c3")) >= 1
    for text in ("slowest", "p99", "degraded answers, by what gave them", "primary, not all features live"):
        assert text in tree.text
    assert len(tree.with_class("shade")) == 1 + 5  # on the timeline and on each panel


def test_requests_that_began_and_ended_at_one_moment_are_drawn() -> None:
    tell = Script()
    tell.events = serving_run()
    last = next(event for event in reversed(tell.events) if event.kind == "request.completed")
    for name in ("twin", "triplet"):
        tell(last.t, "load", "request.completed", **{**last.data, "id": name})
    assert panels(History(tell.events))
