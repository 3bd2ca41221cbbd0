"""Faults run in virtual time here, on a target without processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from trio.testing import MockClock

from chaos.api import Fault, Selection
from chaos.selection import select
from chaos.testing import FakeTarget


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "trio", {"clock": MockClock(autojump_threshold=0)}


@pytest.fixture
def target() -> FakeTarget:
    return FakeTarget()


Hit = Callable[[Fault[Any], FakeTarget], tuple[Selection, ...]]


@pytest.fixture
def hit() -> Hit:
    """What a fault's selectors mean in a target now."""
    return lambda fault, target: select(fault.selectors(), target.slots, target.members(), target.nodes())
