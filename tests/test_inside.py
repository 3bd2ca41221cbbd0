"""What a target imports: when a recovery path is entered, and when it counts as exercised."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest

from chaos import inside


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is emitted, as it comes."""
    found: list[str] = []

    def emit(kind: str, /, **data: Any) -> None:
        found.append(f"{kind} {data['name']}")

    monkeypatch.setattr(inside, "emit", emit)
    return found


def test_a_path_is_exercised_when_its_block_ends_well(told: list[str]) -> None:
    with inside.recovery_path("a.b"):
        assert told == ["path.entered a.b"]
    assert told == ["path.entered a.b", "path.exercised a.b"]


def test_a_path_that_raises_was_entered_only(told: list[str]) -> None:
    @inside.recovers("a.b")
    def broken() -> None:
        raise OSError

    with pytest.raises(OSError):  # noqa: PT011
        broken()
    assert told == ["path.entered a.b"]


def test_a_function_that_recovers_keeps_its_face(told: list[str]) -> None:
    @inside.recovers("a.b")
    def double(x: int) -> int:
        """Twice."""
        return 2 * x

    assert double(4) == 8
    assert (double.__name__, double.__doc__) == ("double", "Twice.")
    assert told == ["path.entered a.b", "path.exercised a.b"]


def test_an_async_function_has_recovered_when_it_ends_not_when_it_is_called(told: list[str]) -> None:
    @inside.recovers("a.b")
    async def later(x: int) -> int:
        assert told == ["path.entered a.b"]
        await asyncio.sleep(0)
        return 2 * x

    assert inspect.iscoroutinefunction(later)
    waiting = later(4)
    assert told == []
    assert asyncio.run(waiting) == 8
    assert told == ["path.entered a.b", "path.exercised a.b"]


def test_an_async_function_that_raises_was_entered_only(told: list[str]) -> None:
    @inside.recovers("a.b")
    async def broken() -> None:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        asyncio.run(broken())
    assert told == ["path.entered a.b"]
