from __future__ import annotations

from typing import Any

import pytest

from chaos.history import Event
from chaos.report.lines import KEY_KINDS, WIDEST, clean, describe, how_ended, number, seconds, struck


def event(kind: str, /, **data: Any) -> Event:
    return Event(seq=0, t=0.0, wall=0.0, source="x", kind=kind, data=data)


def test_every_event_of_a_run_has_a_line(events: list[Event]) -> None:
    for told in events:
        line = describe(told)
        assert line
        assert "\n" not in line


def test_a_line_names_what_a_person_asks_for() -> None:
    line = describe(event("failure.detected", member="worker-n2", **{"class": "partition"}, reason="silent 2 s"))
    assert line == "worker-n2 declared failed (partition): silent 2 s"


def test_a_member_without_a_node_is_on_none() -> None:
    assert describe(event("member.started", member="w", node=None, pid=7)) == "w started, pid 7"


def test_what_a_target_does_not_tell_is_not_made_up() -> None:
    assert describe(event("step.completed", step=3, rank=0, world=1)) == "step 3 on rank 0 of 1"
    assert describe(event("group.formed", epoch=2, world=1, step=19)) == "group formed: epoch 2, 1 rank, from step 19"
    assert describe(event("group.formed", epoch=1, world=1, step=0)).endswith("from nothing")


@pytest.mark.parametrize(
    ("kind", "data", "line"),
    [
        ("replica.ejected", {"replica": "replica-1", "reason": "health"}, "replica-1 taken out of rotation: health"),
        ("breaker.opened", {"name": "store", "reason": "5 timeouts"}, "breaker of store opened: 5 timeouts"),
        (
            "ladder.moved", {"before": "primary", "after": "secondary", "reason": "p99"},
            "model ladder primary → secondary: p99",
        ),
        (
            "drain.ended", {"member": "replica-1", "seconds": 0.25, "lost": 0},
            "replica-1 drained in 250 ms, 0 lost",
        ),
        (
            "session.resumed",
            {"replica": "replica-2", "session": "s3", "way": "replica", "recomputed": 0, "seconds": 0.04},
            "replica-2 goes on with session s3 by replica in 40 ms, 0 tokens recomputed",
        ),
        ("health.changed", {"replica": "replica-1", "level": "ready", "up": False}, "replica-1 is not ready: None"),
        (
            "request.completed", {"id": "r1", "status": 0, "error": "timeout", "latency": 2.0},
            "r1: timeout in 2.0 s",
        ),
    ],
)  # fmt: skip
def test_serving_events_say_what_became_of_whom(kind: str, data: dict[str, Any], line: str) -> None:
    assert describe(event(kind, **data)) == line


def test_an_unknown_kind_shows_its_fields() -> None:
    assert describe(event("queue.stalled", depth=3, names=["a"])) == 'queue.stalled depth=3 names=["a"]'


@pytest.mark.parametrize("kind", sorted(KEY_KINDS))
def test_fields_that_are_missing_or_of_another_type_do_not_matter(kind: str) -> None:
    assert describe(event(kind))
    fields = ("member", "members", "evidence", "seconds", "value", "code", "generation", "loss")
    assert describe(event(kind, **{key: [{"deep": [1, None]}] for key in fields}))


def test_a_member_cannot_steer_the_terminal() -> None:
    line = describe(event("job.failed", reason="\x1b[2J\x07 gone\r\nfault landed \x9b31m"))
    assert all(c.isprintable() for c in line)


def test_a_long_line_is_cut() -> None:
    line = describe(event("job.failed", reason="x" * 10_000))
    assert len(line) == WIDEST
    assert line.endswith("…")


def test_a_lone_surrogate_is_removed() -> None:
    assert clean("a\ud800b") == "a b"


def test_durations_read_as_people_say_them() -> None:
    assert [seconds(v) for v in (None, 0.0404, 3.21, 61.0, 125.4)] == ["–", "40 ms", "3.2 s", "61.0 s", "2 min 5 s"]


def test_numbers_keep_four_digits() -> None:
    assert [number(v) for v in (None, 0.123456, 118.0, 123456.7, 7, "x")] == ["–", "0.1235", "118", "123457", "7", "x"]


def test_an_end_is_told_by_its_signal() -> None:
    assert how_ended({"code": -9}) == "SIGKILL"
    assert how_ended({"code": -9, "expected": True}) == "stopped"
    assert how_ended({"code": 3}) == "exit 3"
    assert how_ended({"code": -99}) == "signal 99"
    assert how_ended({"code": None}) == "gone"


def test_a_fault_between_sides_harms_the_smaller() -> None:
    nodes = {"a0": "n0", "w0": "n0", "w1": "n1", "w2": "n2"}
    members = ["a0", "w0", "w1", "w2"]
    assert struck({"members": members, "sides": [["n1", "n2"], ["n0"]]}, nodes) == ("a0", "w0")
    assert struck({"members": members}, nodes) == tuple(members)
    assert struck({}, nodes) == ()


def test_the_sides_of_a_partition_are_told() -> None:
    line = describe(event("fault.landed", kind="network.partition", sides=[["n3"], ["n0", "n1"]], evidence={"sent": 2}))
    assert line == "network.partition landed between n3 | n0, n1: sent=2"


def test_many_names_are_counted() -> None:
    line = describe(event("fault.landed", kind="x", members=list("abcdef"), evidence={"pairs": [{"from": "a"}] * 5}))
    assert line == "x landed on 6 members: pairs=[5 items]"
