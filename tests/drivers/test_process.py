"""The process driver against real processes, in the lab and without it."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from chaos.api import Files, Launch, Links, Member, Signals
from chaos.drivers.process import Process
from chaos.errors import NotLanded, TargetError

from .conftest import Recorder

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

SLEEPER = """
import signal
from chaos import inside
inside.hello("a", role="program", rank=3)
inside.emit("it.runs", answer=42)
signal.pause()
"""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=[True, False], ids=["lab", "no-lab"])
def lab(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


Make = Callable[..., Launch]


async def test_a_member_is_started_says_hello_and_ends_with_the_block(stage: Recorder, launch: Make, lab: bool) -> None:
    async with Process().open(launch({"a": SLEEPER}, lab=lab), stage) as target:
        await target.wait_ready()
        event = await stage.until("it.runs")
        assert (event.source, event.data) == ("a", {"answer": 42})
        (member,) = target.members()
        assert (member.name, member.role, member.rank) == ("a", "program", 3)
    exited = await stage.until("member.exited")
    assert exited.data["code"] == -signal.SIGTERM
    assert exited.data["expected"] is True
    assert not alive(member)


def alive(member: Member) -> bool:
    from pathlib import Path

    return Path(f"/proc/{member.pid}").exists()
