"""What a serving history means."""

from __future__ import annotations

import pytest
from judge.histories import killed_and_restarted
from judge.serving_histories import Stack, control, killed_and_back

from chaos.history import History
from chaos.serving import serves, service


def test_a_history_of_requests_serves_and_one_of_steps_does_not() -> None:
    assert serves(control().history)
    assert not serves(killed_and_restarted().history)
    assert not serves(History())


def test_a_request_knows_its_attempts_its_start_and_when_the_router_had_it() -> None:
    stack = Stack().open().wait(1.0)
    began = stack.t
    id = stack.ask(("replica-1", 500), ("replica-0", 200), late=0.2, queued=0.1)
    request = service(stack.history).requests[id]
    assert [a.replica for a in request.attempts] == ["replica-1", "replica-0"]
    assert request.began == pytest.approx(began)
    assert request.arrived == pytest.approx(began + 0.2)
    assert [a.failed for a in request.attempts] == [True, False]
    assert (request.status, request.errs, request.degraded) == (200, False, False)


def test_without_its_start_on_record_the_latency_tells_it() -> None:
    stack = Stack().open().wait(1.0)
    began = stack.t
    id = stack.ask(("replica-1", 200), seconds=0.3)
    request = service(stack.drop(lambda e: e.kind == "request.sent").history).requests[id]
    assert request.began == pytest.approx(began, abs=0.01)


def test_a_client_s_mistake_and_a_drain_s_refusal_are_no_failures() -> None:
    stack = Stack().open()
    wrong = stack.ask(("replica-1", 400), wrong=True)
    moved = stack.ask(("replica-1", -503), ("replica-0", 200))
    view = service(stack.history)
    assert not view.requests[wrong].errs
    assert [a.failed for a in view.requests[moved].attempts] == [False, False]


def test_a_new_process_is_a_new_life_and_a_second_hello_is_none() -> None:
    view = service(killed_and_back().history)
    first, second = view.lives["replica-1"]
    assert first.exited is not None
    assert second.exited is None
    assert second.ready is not None
    stack = Stack().open()
    stack.add("member.started", "replica-0", member="replica-0", role="replica", node="r0", pid=stack.pids["replica-0"])
    assert len(service(stack.history).lives["replica-0"]) == 1


def test_the_dead_are_those_who_ended_froze_or_were_cut_off_from_the_router() -> None:
    view = service(killed_and_back().history)
    (dead,) = view.dead()
    assert (dead.replica, dead.how) == ("replica-1", "ended with -9")
    assert dead.since < dead.until < view.over
    frozen = Stack().open().serve(3)
    frozen.fault("process.freeze", "replica-2", instant=False)
    frozen.serve(3, "replica-0").heal("process.freeze")
    assert [d.replica for d in service(frozen.serve(3).close().history).dead()] == ["replica-2"]
    cut = Stack().open().serve(3)
    cut.parted(["gw"], ["r0", "r2"])
    assert [d.replica for d in service(cut.serve(3).close().history).dead()] == ["replica-0", "replica-2"]


@pytest.mark.parametrize(
    ("sides", "hit", "dead"),
    [
        ((["r1"], ["gw", "s0", "r0", "r2", "c0"]), {"replica-1"}, {"replica-1"}),
        ((["r1"], ["s0"]), {"replica-1"}, set()),
        ((["c0"], ["gw", "s0", "r0", "r1", "r2"]), set(), set()),
        ((["r0"], ["r1", "r2"]), set(), set()),
    ],
)
def test_of_a_partition_those_are_hit_who_are_cut_off_from_what_they_need(
    sides: tuple[list[str], list[str]], hit: set[str], dead: set[str]
) -> None:
    stack = Stack().open().serve(3)
    stack.parted(*sides)
    view = service(stack.serve(3).close().history)
    (fault,) = view.faults
    assert view.hit(fault) == hit
    assert {d.replica for d in view.dead()} == dead
    assert not view.shared(fault)


@pytest.mark.parametrize(("whom", "shared"), [("router", True), ("store", True), ("load", False), ("replica-1", False)])
def test_what_all_replicas_depend_on_is_shared(whom: str, shared: bool) -> None:
    stack = Stack().open().serve(3)
    stack.fault("process.freeze", whom, instant=False)
    view = service(stack.serve(3).close().history)
    (fault,) = view.faults
    assert view.shared(fault) is shared
    assert view.explains(fault, "replica-0", stack.t, 1.0) is shared


def test_the_load_s_end_is_the_end() -> None:
    stack = Stack().open().serve(3)
    stack.close()
    view = service(stack.history)
    assert view.over == next(e.t for e in stack.events if e.kind == "load.ended")
    assert view.control
