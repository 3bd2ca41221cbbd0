"""S12: who writes a session."""

from __future__ import annotations

from typing import Any

import pytest
from judge.histories import Tape

from chaos.invariants.fenced_session import FencedSession
from chaos.verdict import Outcome

FENCED, OPTIONAL = FencedSession(), FencedSession(attempt="optional")


def wrote(tape: Tape, replica: str, token: int | None, highest: int | None = None, **more: Any) -> int:
    facts: dict[str, Any] = {"replica": replica, "session": "s1", "tokens": 40, "to": "store", "token": token}
    facts |= {"highest": token if highest is None else highest, "seconds": 0.002}
    return tape.add("kv.written", replica, **facts | more)


def refused(tape: Tape, replica: str, token: int, highest: int, resource: str = "session/s1") -> int:
    facts: dict[str, Any] = {"resource": resource, "op": "kv.write", "member": replica, "reason": "stale-epoch"}
    return tape.add("write.rejected", replica, **facts, token=token, highest=highest)


def test_an_older_owner_that_is_refused_passes() -> None:
    tape = Tape()
    wrote(tape, "replica-0", 1)
    wrote(tape, "replica-1", 2)
    wrote(tape, "replica-2", 1, session="s2")  # tokens are those of a session
    late = refused(tape, "replica-0", 1, 2)
    verdict = FENCED.check(tape.history)
    assert verdict.outcome is Outcome.PASS
    assert verdict.evidence == (late,)


def test_an_older_owner_whose_write_is_accepted_fails() -> None:
    tape = Tape()
    wrote(tape, "replica-0", 1)
    newer = wrote(tape, "replica-1", 2)
    late = wrote(tape, "replica-0", 1, highest=2)
    verdict = FENCED.check(tape.history)
    assert verdict.outcome is Outcome.FAIL
    assert verdict.evidence == (newer, late)


def test_a_write_that_was_accepted_before_and_is_told_late_is_none_of_an_older_owner() -> None:
    tape = Tape()
    wrote(tape, "replica-1", 2)
    tape.wait(5.0)  # it was frozen between the answer and its telling of it
    wrote(tape, "replica-0", 1, highest=1, seconds=5.5)
    assert OPTIONAL.check(tape.history).outcome is Outcome.PASS


@pytest.mark.parametrize("newer", [{}, {"to": "replica-0"}], ids=["told it", "is it"])
def test_who_keeps_a_session_is_not_believed_that_it_knows_of_no_newer_owner(newer: dict[str, Any]) -> None:
    tape = Tape()
    known = wrote(tape, "replica-2", 2, **{"to": "replica-2", **newer})
    late = wrote(tape.wait(5.0), "replica-1", 1, highest=1, to="replica-2")
    verdict = OPTIONAL.check(tape.history)
    assert verdict.outcome is Outcome.FAIL
    assert "s after replica-2 had known 2, and says that it knew of none above 1" in verdict.reason
    assert verdict.evidence == (known, late)


def test_who_was_never_told_of_a_newer_owner_may_take_an_older_ones_state() -> None:
    tape = Tape()
    wrote(tape, "replica-2", 2, to="replica-0")
    wrote(tape.wait(5.0), "replica-1", 1, highest=1, to="replica-3")
    assert OPTIONAL.check(tape.history).outcome is Outcome.PASS


def test_a_store_that_was_lost_knows_of_nobody() -> None:
    tape = Tape()
    wrote(tape, "replica-2", 2)
    tape.add("member.exited", member="redis", role="redis", code=-9)
    wrote(tape.wait(5.0), "replica-1", 1, highest=1)
    assert OPTIONAL.check(tape.history).outcome is Outcome.PASS


def test_a_late_write_of_which_nobody_tells_when_it_began_is_unknown() -> None:
    tape = Tape()
    wrote(tape, "replica-2", 2)
    wrote(tape, "replica-1", 1, highest=1, seconds=None)
    verdict = OPTIONAL.check(tape.history)
    assert verdict.outcome is Outcome.UNKNOWN
    assert "nobody tells when that began" in verdict.reason


def test_a_write_without_a_token_fails() -> None:
    tape = Tape()
    wrote(tape, "replica-0", None, highest=0)
    assert FENCED.check(tape.history).outcome is Outcome.FAIL


def test_without_an_attempt_nothing_is_proved_unless_none_is_asked() -> None:
    tape = Tape()
    wrote(tape, "replica-0", 1)
    refused(tape, "replica-0", 3, 3)  # a wall, no fence
    refused(tape, "replica-0", 1, 2, resource="generation/1/commit")  # of something else
    assert FENCED.check(tape.history).outcome is Outcome.UNKNOWN
    assert FencedSession(attempt="optional").check(tape.history).outcome is Outcome.PASS
    assert FENCED.check(Tape().history).outcome is Outcome.UNKNOWN
