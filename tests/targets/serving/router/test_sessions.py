"""What the router keeps of sessions."""

from __future__ import annotations

import asyncio

import pytest

from targets.serving.router import sessions as module
from targets.serving.router.sessions import Sessions

from .clock import Clock


def test_a_session_lives_as_long_as_it_is_used() -> None:
    clock = Clock()
    sessions = Sessions(10.0, clock)
    first = sessions.get("a")
    for _ in range(5):
        clock.pass_(6)
        assert sessions.get("a") is first
        sessions.get("b")
    clock.pass_(11)
    sessions.get("c")
    assert len(sessions) == 1
    assert sessions.get("a") is not first


def test_one_whose_turn_runs_is_not_forgotten() -> None:
    async def run() -> None:
        clock = Clock()
        sessions = Sessions(10.0, clock)
        running = sessions.get("a")
        async with running.turn:
            clock.pass_(60)
            sessions.get("b")
            assert sessions.get("a") is running

    asyncio.run(run())


def test_there_are_never_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 3)
    sessions = Sessions(10.0, Clock())
    kept = [sessions.get(name) for name in "abcd"]
    assert len(sessions) == 3
    assert sessions.get("d") is kept[3]
    assert sessions.get("a") is not kept[0]


def test_a_turn_that_is_complete_is_history() -> None:
    session = Sessions(10.0, Clock()).get("a")
    session.complete([1, 2], [3], "k0", {"done": True})
    session.complete([4], [5, 6], "k1", {"done": True})
    assert session.history == [1, 2, 3, 4, 5, 6]
    assert (session.turns, session.key, session.answer) == (2, "k1", [5, 6])
