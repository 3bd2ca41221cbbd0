"""Fittings that see file operations before they happen, and do them for the member."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar

import anyio
import msgspec
import pytest
from anyio.abc import TaskGroup

from chaos.api import Launch
from chaos.drivers.process import opening
from chaos.drivers.process.fittings.assembly import Assembly
from chaos.drivers.process.fittings.base import Face, Fitting
from chaos.drivers.process.fittings.tap import probe as probing
from chaos.drivers.process.fittings.tap.fitting import Tap
from chaos.drivers.process.fittings.tap.observer import Observer
from chaos.drivers.process.fittings.tap.operation import Operation
from chaos.drivers.process.recipe import Recipe
from chaos.drivers.process.spec import decode
from chaos.drivers.process.supervisor import Supervisor
from chaos.faults.storage.error import Error
from chaos.testing import Recorder

from .conftest import PRELUDE, said

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


class Syncer:
    """Syncs for the member, so that it knows when something is durable; refuses folders."""

    ops = frozenset({"fsync", "write", "mkdir"})

    def __init__(self) -> None:
        self.seen: list[tuple[Any, ...]] = []

    def before(self, operation: Operation) -> int | None:
        if "/data/" not in operation.path:
            return None
        name = os.path.basename(operation.path)
        if operation.op == "write":
            self.seen.append(("write", name, operation.offset(), operation.data()))
            return None
        if operation.op == "mkdir":
            return -errno.EDQUOT
        with operation.file() as file:
            os.fsync(file)
        self.seen.append(("synced", name, operation.program))
        return 0


class WatchFace(Face):
    """Gives nothing."""


class Watching(Fitting):
    """Wants to see, and nothing else."""

    name: ClassVar[str] = "watching"
    capability: ClassVar[type] = Recorder
    face: ClassVar[type[Face]] = WatchFace
    syncer: ClassVar[Syncer]

    @classmethod
    def wanted(cls, launch: Launch) -> bool:
        return True

    def observers(self) -> Sequence[Observer]:
        return (self.syncer,)

    async def set_up(self, supervisor: Supervisor, tasks: TaskGroup) -> str:
        return "by hand"


PROGRAM = """
file = os.open(f"{data}/file", os.O_CREAT | os.O_RDWR)
os.write(file, b"one")
os.writev(file, [b"t", b"w", b"o"])
os.pwrite(file, b"!", 100)
os.fdatasync(file)
say(os.lseek(file, 0, os.SEEK_CUR), os.fstat(file).st_size)
try:
    os.mkdir(f"{data}/folder")
except OSError as error:
    say(error.strerror)
go()
"""


@pytest.fixture
def watched(launch: Callable[..., Launch], monkeypatch: pytest.MonkeyPatch) -> Launch:
    Watching.syncer = Syncer()
    monkeypatch.setattr(opening, "Assembly", partial(Assembly, kinds=(Watching,)))
    return launch({"a": PRELUDE + PROGRAM}, points=("go",))


async def test_a_fitting_sees_and_does_what_its_members_do(watched: Launch, stage: Recorder) -> None:
    async with opening.open_target(decode(watched.spec), watched, stage) as target:
        await stage.until("point.reached", "a")
        assert target.mechanisms()["watching"] == "by hand"
        assert "tap" in target.mechanisms()
        assert not (target.data_root() / "folder").exists()
    assert said(stage) == ["6 101", "Disk quota exceeded"]
    assert Watching.syncer.seen == [
        ("write", "file", 0, b"one"),
        ("write", "file", 3, b"two"),
        ("write", "file", 100, b"!"),
        ("synced", "file", "a"),
    ]


async def test_an_observer_that_breaks_ends_the_run(
    watched: Launch, stage: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(operation: Operation) -> int | None:
        raise ZeroDivisionError("a bug in the observer")

    monkeypatch.setattr(Watching.syncer, "before", broken)
    with pytest.raises(ZeroDivisionError, match="a bug in the observer"):
        async with opening.open_target(decode(watched.spec), watched, stage):
            await anyio.sleep_forever()


async def test_a_machine_without_the_tap_refuses_who_needs_it(
    watched: Launch, stage: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probing, "missing", lambda: "the kernel says no")
    fault = Error(path="*", ops=("mkdir",))
    needs = msgspec.structs.replace(watched, faults=(fault,))
    assembly = Assembly(Recipe(decode(needs.spec), needs), stage, kinds=(Watching, Tap))
    assert assembly.lab() == {}
    assert {name: error.reason for name, error in assembly.refused.items()} == dict.fromkeys(
        ("tap", "watching"), "the kernel says no"
    )
    assert assembly.mechanisms.keys() == {"tap-refused", "watching-refused"}
    assert all(why.startswith("the kernel says no; Linux 5.6 or newer") for why in assembly.mechanisms.values())
