"""What the router tells the harness."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from chaos import inside
from targets.serving.router.facts import Facts

from .clock import Clock


@pytest.fixture
def together() -> asyncio.Event:
    """Set when facts came together."""
    return asyncio.Event()


@pytest.fixture
def told(together: asyncio.Event, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, Any]]]:
    heard: list[tuple[str, dict[str, Any]]] = []
    monkeypatch.setattr(inside, "emit", lambda kind, /, **data: heard.append((kind, data)))

    def emit_all(facts: list[tuple[str, float, dict[str, Any]]]) -> None:
        heard.extend((kind, {**data, "t": t}) for kind, t, data in facts)
        together.set()

    monkeypatch.setattr(inside, "emit_all", emit_all)
    monkeypatch.setattr(inside, "listening", lambda: True)
    return heard


def test_a_path_is_named_once_a_second(told: list[tuple[str, dict[str, Any]]]) -> None:
    clock = Clock()
    facts = Facts(clock)
    for _ in range(100):
        with facts.path("request.shed"):
            clock.pass_(0.015)
    entered = [data["name"] for kind, data in told if kind == "path.entered"]
    assert entered == ["request.shed"] * 2
    with facts.path("request.retry"):
        pass
    assert told[-2:] == [("path.entered", {"name": "request.retry"}), ("path.exercised", {"name": "request.retry"})]


def test_a_path_that_fails_was_not_exercised(told: list[tuple[str, dict[str, Any]]]) -> None:
    with pytest.raises(ValueError, match="broke"), Facts(Clock()).path("router.drain"):
        raise ValueError("broke")
    assert [kind for kind, _ in told] == ["path.entered"]


def test_a_fact_is_handed_on(told: list[tuple[str, dict[str, Any]]]) -> None:
    Facts(Clock()).emit("serving.ready", replicas=["replica-0"])
    assert told == [("serving.ready", {"replicas": ["replica-0"]})]


def test_facts_of_requests_are_told_together_and_before_what_comes_after_them(
    told: list[tuple[str, dict[str, Any]]], together: asyncio.Event
) -> None:
    async def run() -> None:
        clock = Clock()
        facts = Facts(clock)
        for i in range(3):
            facts.emit_soon("attempt.completed", id=i)
            clock.pass_(0.001)
        assert told == []
        facts.emit("router.usage", queue=0)
        assert [kind for kind, _ in told] == ["attempt.completed"] * 3 + ["router.usage"]
        assert [round(data["t"], 3) for _, data in told[:3]] == [100.0, 100.001, 100.002]
        facts.emit_soon("request.shed", id=4)
        together.clear()
        await asyncio.wait_for(together.wait(), 5)
        assert told[4][0] == "request.shed"

    asyncio.run(run())
