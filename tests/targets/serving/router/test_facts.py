"""What the router tells the harness."""

from __future__ import annotations

from typing import Any

import pytest

from chaos import inside
from targets.serving.router.facts import Facts

from .clock import Clock


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, Any]]]:
    heard: list[tuple[str, dict[str, Any]]] = []
    monkeypatch.setattr(inside, "emit", lambda kind, /, **data: heard.append((kind, data)))
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
