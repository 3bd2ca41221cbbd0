"""S12: who writes a session."""

from __future__ import annotations

from typing import Any

from judge.histories import Tape

from chaos.invariants.fenced_session import FencedSession
from chaos.verdict import Outcome

FENCED = FencedSession()


def wrote(tape: Tape, replica: str, token: int | None, highest: int | None = None, session: str = "s1") -> int:
    facts: dict[str, Any] = {"replica": replica, "session": session, "tokens": 40, "to": "store", "token": token}
    return tape.add("kv.written", replica, **facts, highest=token if highest is None else highest)


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
    wrote(tape, "replica-0", 1, highest=1)  # it was frozen between the answer and its telling of it
    assert FencedSession(attempt="optional").check(tape.history).outcome is Outcome.PASS


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
