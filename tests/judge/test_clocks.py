"""Moments that cannot be: by when the harness heard of what somebody tells."""

from __future__ import annotations

import msgspec

from chaos.history import Event, History
from chaos.judge import judge
from chaos.result import Check
from judge.asked import contract
from judge.histories import Tape, killed_and_restarted
from judge.serving_histories import killed_and_back


def doubts(tape: Tape, source: str, kind: str = "", seconds: float = 0.0) -> list[Check]:
    """Where what a source says of a kind, or all of it, happened that much later than it was heard of."""
    events = [
        msgspec.structs.replace(e, t=e.t + seconds) if e.source == source and kind in ("", e.kind) else e
        for e in tape.events
    ]
    return [c for c in judge(contract(), History(events)).checks if c.name == "clocks"]


def test_what_is_told_at_once_is_no_matter() -> None:
    assert not doubts(killed_and_restarted(), "coordinator-0")
    assert not doubts(killed_and_back(), "router")


def test_what_is_to_have_happened_after_it_was_heard_of_is_a_doubt() -> None:
    (check,) = doubts(killed_and_restarted(), "coordinator-0", "failure.detected", 0.5)
    assert "failure.detected of coordinator-0 is said to have happened 0.5 s after" in check.verdict.reason


def test_a_member_with_another_clock_is_a_doubt() -> None:
    (check,) = doubts(killed_and_restarted(), "coordinator-0", "", -1.5)
    assert "all that coordinator-0 tells is said to have happened 1.5 s or more before" in check.verdict.reason


def test_a_single_fact_that_is_dated_back_is_a_doubt_unless_who_told_it_was_hit() -> None:
    (check,) = doubts(killed_and_restarted(), "coordinator-0", "group.formed", -2.5)
    assert "group.formed of coordinator-0 is said to have happened 2.5 s before" in check.verdict.reason
    assert not doubts(killed_and_restarted(), "worker-n1", "checkpoint.loaded", -2.5)


def test_a_request_keeps_the_moment_at_which_it_was() -> None:
    assert not doubts(killed_and_back(), "load", "request.completed", -2.5)


def test_nothing_follows_where_the_clock_of_the_machine_was_set() -> None:
    tape = killed_and_restarted()
    half: list[Event] = [
        msgspec.structs.replace(e, wall=e.wall + 30.0) if e.seq > tape.count / 2 else e for e in tape.events
    ]
    assert not [c for c in judge(contract(), History(half)).checks if c.name == "clocks"]
