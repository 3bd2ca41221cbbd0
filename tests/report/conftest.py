"""A run and its result, green and red."""

from __future__ import annotations

import pytest

from chaos.history import Event, History
from chaos.result import Kind, Result
from chaos.verdict import Outcome, Verdict, failed

from .scripted import check, partition_run, result_of


@pytest.fixture
def events() -> list[Event]:
    return partition_run()


@pytest.fixture
def history(events: list[Event]) -> History:
    return History(events)


@pytest.fixture
def result(events: list[Event]) -> Result:
    return result_of(events)


@pytest.fixture
def red(events: list[Event]) -> Result:
    """A failed run: one invariant is broken, one could not be judged."""
    proof = next(e.seq for e in events if e.kind == "checkpoint.committed")
    return result_of(
        events,
        check("no-uncommitted-restore", Kind.INVARIANT, failed("rank 1 restored generation 3", [proof]), id="T2"),
        check("no-orphan", Kind.INVARIANT, Verdict(outcome=Outcome.UNKNOWN, reason="no agent died"), id="T12"),
        outcome=Outcome.FAIL,
    )
