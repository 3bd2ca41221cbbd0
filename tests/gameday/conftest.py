"""Game days in virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from runner.conftest import VirtualLoop
from trio.testing import MockClock

from .fakes import World, at


@pytest.fixture(params=["trio", "asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """Both: a game day is on asyncio, trio tells mistakes that asyncio forgives."""
    if request.param == "asyncio":
        return "asyncio", {"loop_factory": VirtualLoop}
    return "trio", {"clock": MockClock(autojump_threshold=0)}


@pytest.fixture
def world() -> Iterator[World]:
    """Friday, half past nine in Berlin. Its state is durable, and virtual time does not wait for disks: in memory."""
    with TemporaryDirectory(dir="/dev/shm") as place:
        made = World(Path(place), at("2026-12-04T09:30"))
        yield made
        made.store.close()
