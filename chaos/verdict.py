"""Three-valued verdicts with their evidence."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

import msgspec


class Outcome(Enum):
    """pass, unknown or fail; a pass without anything to judge is unknown."""

    PASS = "pass"
    UNKNOWN = "unknown"
    FAIL = "fail"


_RANK = {Outcome.PASS: 0, Outcome.UNKNOWN: 1, Outcome.FAIL: 2}


class Verdict(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one check says. `evidence` holds the `seq` of the events that show it, in order."""

    outcome: Outcome
    reason: str
    evidence: tuple[int, ...] = ()


def passed(reason: str, evidence: Iterable[int]) -> Verdict:
    """A pass; without evidence it turns into unknown, since a vacuous pass is no pass."""
    seqs = tuple(evidence)
    if not seqs:
        return unknown(f"nothing to judge: {reason}")
    return Verdict(outcome=Outcome.PASS, reason=reason, evidence=seqs)


def failed(reason: str, evidence: Iterable[int] = ()) -> Verdict:
    """A failure. Evidence may be empty only where the failure is an absence."""
    return Verdict(outcome=Outcome.FAIL, reason=reason, evidence=tuple(evidence))


def unknown(reason: str, evidence: Iterable[int] = ()) -> Verdict:
    """Nothing that could be judged, or a judge that could not."""
    return Verdict(outcome=Outcome.UNKNOWN, reason=reason, evidence=tuple(evidence))


def merge(outcomes: Iterable[Outcome]) -> Outcome:
    """fail > unknown > pass; of nothing at all: unknown."""
    return max(outcomes, key=_RANK.__getitem__, default=Outcome.UNKNOWN)
