from __future__ import annotations

from collections.abc import Iterator

import pytest

from chaos.history import Event
from chaos.report.board import Board

from .scripted import Script, serving_run


def board_of(events: list[Event]) -> Board:
    board = Board()
    for event in events:
        board.event(event)
    return board


def fed(events: list[Event]) -> Iterator[tuple[Event, Board]]:
    """The board after each of them."""
    board = Board()
    for event in events:
        board.event(event)
        yield event, board


def until(events: list[Event], kind: str) -> list[Event]:
    """The events up to and with the first of that kind."""
    end = next(e.seq for e in events if e.kind == kind)
    return events[: end + 1]


def test_a_member_shows_its_last_step_epoch_and_rank(events: list[Event]) -> None:
    row = board_of(events).rows["worker-n1"]
    assert (row.role, row.node, row.rank, row.pid, row.step, row.epoch, row.generation) == (
        "worker", "n1", 1, 101, 60, 2, 2,
    )  # fmt: skip


def test_a_standing_fault_is_shown_on_its_members_until_it_is_healed(events: list[Event]) -> None:
    during = board_of(until(events, "fault.landed"))
    assert during.faults_on(during.rows["worker-n2"]) == ["network.partition"]
    assert during.faults_on(during.rows["worker-n0"]) == []
    assert not board_of(until(events, "fault.healed")).faults


def test_an_instant_fault_does_not_stand() -> None:
    tell = Script()
    tell(1.0, "fault:process.kill", "fault.landed", kind="process.kill", members=["w"], evidence={}, instant=True)
    assert not board_of(tell.events).faults


def test_a_frozen_member_is_frozen_until_the_heal() -> None:
    tell = Script()
    tell(0.0, "w", "member.started", member="w", role="worker", pid=1)
    tell(1.0, "fault:f", "fault.landed", kind="process.freeze", members=["w"], evidence={})
    board = board_of(tell.events)
    assert board.state_of(board.rows["w"]) == "frozen"
    board.event(tell(2.0, "fault:f", "fault.healed", kind="process.freeze"))
    assert board.state_of(board.rows["w"]) == "alive"


def test_the_end_of_a_process_that_was_replaced_does_not_end_its_successor() -> None:
    tell = Script()
    tell(0.0, "w", "member.started", member="w", role="worker", pid=1)
    tell(1.0, "w", "member.started", member="w", role="worker", pid=2)
    tell(1.1, "harness", "member.exited", member="w", pid=1, code=-9)
    board = board_of(tell.events)
    assert board.state_of(board.rows["w"]) == "alive"
    board.event(tell(1.2, "harness", "member.exited", member="w", pid=2, code=-9))
    assert board.state_of(board.rows["w"]) == "SIGKILL"


def test_throughput_falls_to_zero_when_steps_stop() -> None:
    tell = Script()
    for i in range(40):
        tell(i * 0.1, "w", "step.completed", step=i + 1, rank=0, epoch=1, samples=[1, 2])
    board = board_of(tell.events)
    assert board.rate == pytest.approx(20, rel=0.1)
    for t in (6.0, 8.1):
        board.event(tell(t, "probe:x", "probe.sampled", value=1))
    assert board.rate == 0


def test_phases_follow_the_harness(events: list[Event]) -> None:
    phases = [board_of(until(events, kind)).phase for kind in ("target.starting", "method.started", "run.ended")]
    assert phases == ["starting the target", "method", "ended"]


def test_a_serving_run_shows_what_clients_go_through() -> None:
    events = serving_run()
    assert board_of([e for e in events if e.t < 1.0]).traffic is None
    lines = [line for e, board in fed(events) if e.kind == "request.completed" and (line := board.traffic)]
    assert lines[0].line().startswith("90 requests/s")  # none in the first 0.2 s
    assert any("failed" in traffic.line() and "slowest 2.0 s" in traffic.line() for traffic in lines)
    assert any("% shed" in traffic.line() for traffic in lines)
    assert lines[-1].line().endswith("tier secondary")


def test_the_mistakes_of_clients_are_no_traffic() -> None:
    tell = Script()
    for i in range(30):
        tell(i / 10, "load", "request.completed", id=f"r{i}", status=400, latency=0.1, wrong=True)
    traffic = board_of(tell.events).traffic
    assert traffic is not None
    assert traffic.requests == 0
    assert "failed" not in traffic.line()
