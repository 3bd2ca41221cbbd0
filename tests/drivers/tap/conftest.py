"""Programs whose file operations are tapped, and faults on them carried to their first hit."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from chaos.api import JSON, Fault, Landing, Launch, Member
from chaos.drivers.process import Process
from chaos.drivers.process.target import ProcessTarget
from chaos.selection import select
from chaos.testing import Recorder
from chaos.trigger import OnFile

# What every program here begins with: `go()` returns once the harness says so.
PRELUDE = """
import os, sys, threading, time
from chaos import inside
data = os.environ["CHAOS_DATA"]
inside.hello(os.environ["CHAOS_MEMBER"], role="program")
go = lambda: inside.point("go")
def say(*words): print(*words, flush=True)
"""

Open = Callable[..., AbstractAsyncContextManager[ProcessTarget]]
Strike = Callable[..., AbstractAsyncContextManager[Landing]]


@pytest.fixture
def tapped(launch: Callable[..., Launch], stage: Recorder) -> Open:
    """A target of programs, opened: `faults` and `files` say what may be asked of the tap."""

    @asynccontextmanager
    async def opening(
        programs: dict[str, str], *faults: Fault[Any], files: Sequence[OnFile] = (), **more: Any
    ) -> AsyncIterator[ProcessTarget]:
        sources = {name: PRELUDE + source for name, source in programs.items()}
        made = msgspec.structs.replace(
            launch(sources, points=("go",), **more), faults=tuple(faults), files=tuple(files)
        )
        async with Process().open(made, stage) as target:
            assert isinstance(target, ProcessTarget)
            await target.wait_ready()
            yield target

    return opening


@pytest.fixture
def strike(stage: Recorder) -> Strike:
    """Arm a fault, let `go()` return, and wait for the first hit."""

    @asynccontextmanager
    async def striking(fault: Fault[Any], target: ProcessTarget) -> AsyncIterator[Landing]:
        for member in target.members():  # who comes to `go()` after the release would stand there for good
            await stage.until("point.reached", member.name)
        async with fault.inject(target, *select(fault.selectors(), (), target.members())) as landing:
            assert landing.hit is not None
            assert not landing.evidence, "armed, and hit nobody yet"
            release(stage)
            landing.evidence = await landing.hit(lambda: None)
            yield landing

    return striking


@pytest.fixture(autouse=True)
def _held(stage: Recorder) -> None:
    stage.held["go"] = anyio.Event()


def release(stage: Recorder) -> None:
    """Let whoever stands at `go()` go on; the next one stands again."""
    stands, stage.held["go"] = stage.held["go"], anyio.Event()
    stands.set()


def said(stage: Recorder, member: str = "a") -> list[str]:
    """The lines of a member."""
    return [line for name, line in stage.lines if name == member]


def shell(name: str, script: str) -> JSON:
    """A member that nobody instrumented."""
    return {"name": name, "role": "program", "command": ["sh", "-c", script]}


def data(target: ProcessTarget) -> Path:
    return target.data_root()


def filtered(member: Member) -> bool:
    """Whether the kernel filters the system calls of that process."""
    with open(f"/proc/{member.pid}/status") as file:
        return "Seccomp:\t2" in file.read()
