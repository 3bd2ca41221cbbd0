"""Members that see their files through the fault file system: what they are told, and that others are not."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from chaos.api import JSON, Fault, Landing, Launch, Selector
from chaos.drivers.process import Process
from chaos.drivers.process.fittings import fuse
from chaos.drivers.process.target import ProcessTarget
from chaos.errors import HealFailed, NotLanded
from chaos.faults.storage.bit_rot import BitRot
from chaos.faults.storage.short_read import ShortRead
from chaos.faults.storage.stale_metadata import StaleMetadata
from chaos.faults.storage.throttle import Throttle
from chaos.faults.storage.torn_write import TornWrite
from chaos.selection import select
from chaos.storage import Views
from chaos.testing import Recorder

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
Make = Callable[..., Launch]

# Does what a file beside its data tells it, and says what came of it.
CLERK = """
    import hashlib, json, os, sys, time
    from pathlib import Path
    from chaos import inside

    data, orders = Path(os.environ["CHAOS_DATA"]), os.environ["ORDERS"] + os.environ["CHAOS_MEMBER"]
    inside.emit("it.runs", device=data.stat().st_dev)
    with open(orders) as lines:
        for line in lines:
            op, name, *more = json.loads(line)
            path, began, said = data / name, time.monotonic(), None
            try:
                if op == "read":
                    handle = os.open(path, os.O_RDONLY)
                    said = list(os.read(handle, 1 << 20))
                    os.close(handle)
                elif op == "write":
                    handle = os.open(path, os.O_WRONLY | os.O_CREAT)
                    said = os.write(handle, bytes(more[0]))
                    os.close(handle)
                elif op == "list":
                    said = sorted(os.listdir(path))
                elif op == "size":
                    said = path.stat().st_size
                elif op == "copy":
                    content = path.read_bytes()
                    (data / more[0]).write_bytes(content)
                    said = hashlib.blake2b(content).hexdigest()
                elif op == "all":
                    (path / "folder").mkdir()
                    (path / "folder" / "a").write_bytes(b"abc")
                    with open(path / "folder" / "a", "ab") as file:
                        file.write(b"def")
                        file.flush()
                        os.fsync(file.fileno())
                    os.link(path / "folder" / "a", path / "hard")
                    os.symlink("hard", path / "soft")
                    os.truncate(path / "hard", 4)
                    os.chmod(path / "hard", 0o640)
                    os.utime(path / "hard", ns=(5, 7))
                    handle = os.open(path, os.O_RDONLY)
                    os.fsync(handle)
                    os.close(handle)
                    os.rename(path / "folder" / "a", path / "b")
                    os.rmdir(path / "folder")
                    stat = os.stat(path / "soft")
                    said = [(path / "b").read_bytes().decode(), oct(stat.st_mode), stat.st_mtime_ns, stat.st_nlink,
                            os.readlink(path / "soft"), sorted(os.listdir(path))]
                    for name in ("soft", "hard", "b"):
                        os.unlink(path / name)
            except OSError as error:
                said = type(error).__name__ if type(error) is not OSError else error.errno
            inside.emit("it.did", op=op, said=said, took=time.monotonic() - began)
"""


class Office:
    """Two clerks on nodes of their own; the first one's files are fitted."""

    def __init__(self, target: Any, stage: Recorder, data: Path, orders: dict[str, int]) -> None:
        self.target, self.stage, self.data = target, stage, data
        self._orders, self._done = orders, dict.fromkeys(orders, 0)

    async def ask(self, name: str, *order: Any) -> Any:
        return (await self.ask_fully(name, *order)).data["said"]

    async def ask_fully(self, name: str, *order: Any) -> Any:
        os.write(self._orders[name], json.dumps(order).encode() + b"\n")
        self._done[name] += 1
        return await self.stage.until("it.did", name, times=self._done[name])

    @asynccontextmanager
    async def broken(self, fault: Fault[Any]) -> AsyncIterator[Landing]:
        hit = select(fault.selectors(), (), self.target.members(), ("n-a", "n-b"))
        async with fault.inject(self.target, *hit) as landing:
            yield landing


async def proof(landing: Landing) -> JSON:
    assert landing.hit is not None
    called: list[int] = []
    with anyio.fail_after(5.0):
        evidence = await landing.hit(lambda: called.append(1))
    assert called
    assert evidence["mechanism"] == "fuse"
    return evidence


A = Selector(names=("a",))


@pytest.fixture
def office(stage: Recorder, launch: Make, tmp_path: Path) -> Callable[..., Any]:
    if reason := fuse.missing(lab=True):
        pytest.skip(reason)

    @asynccontextmanager
    async def open_office(*faults: Fault[Any]) -> AsyncIterator[Office]:
        pipes = {}
        for name in ("a", "b"):
            os.mkfifo(tmp_path / name)
            pipes[name] = os.open(tmp_path / name, os.O_RDWR)
        made = launch(
            {"a": CLERK, "b": CLERK}, node="n-", nodes=[{"name": "n-a"}, {"name": "n-b"}],
            env={"ORDERS": f"{tmp_path}/"},
        )  # fmt: skip
        made = msgspec.structs.replace(made, faults=faults)
        async with Process().open(made, stage) as target:
            await target.wait_ready()
            devices = [(await stage.until("it.runs", name)).data["device"] for name in ("a", "b")]
            assert isinstance(target, ProcessTarget)
            assert isinstance(target, Views)
            assert target.mechanisms()["fuse"] == "fuse: libfuse 3 by mfusepy, for a"
            assert devices[0] != devices[1] == os.stat(target.data_root()).st_dev
            yield Office(target, stage, target.data_root(), pipes)
        for pipe in pipes.values():
            os.close(pipe)

    return open_office


async def test_without_a_lie_it_is_the_folder_itself(office: Any) -> None:
    async with office(BitRot(members=A, path="x")) as at:
        said = await at.ask("a", "all", ".")
        assert said == await at.ask("b", "all", ".")
        assert said[0] == "abcd"
        assert said[1:4] == ["0o100640", 7, 2]
        big = os.urandom(3_000_001)
        (at.data / "big").write_bytes(big)
        assert await at.ask("a", "copy", "big", "copy") == hashlib.blake2b(big).hexdigest()
        assert (at.data / "copy").read_bytes() == big


async def test_bits_rot_for_one_reader_and_not_on_the_disk(office: Any) -> None:
    fault = BitRot(members=A, path="kept/*", at=0.5, mask=0x81)
    async with office(fault) as at:
        (at.data / "kept").mkdir()
        (at.data / "kept" / "f").write_bytes(bytes(100))
        (at.data / "other").write_bytes(bytes(100))
        assert await at.ask("a", "read", "kept/f") == [0] * 100  # what the kernel may keep must not hide it
        async with at.broken(fault) as landing:
            assert await at.ask("a", "read", "other") == [0] * 100
            assert await at.ask("b", "read", "kept/f") == [0] * 100
            assert await at.ask("a", "read", "kept/f") == [0] * 50 + [0x81] + [0] * 49
            evidence = await proof(landing)
            assert evidence | {"path": "kept/f", "offset": 50, "stored": 0, "given": 0x81} == evidence
            assert (at.data / "kept" / "f").read_bytes() == bytes(100)
        assert await at.ask("a", "read", "kept/f") == [0] * 100
        assert landing.healed["views"][0]["hits"] == 1
        assert landing.healed["views"][0]["served"] > 2


async def test_reads_come_short(office: Any) -> None:
    fault = ShortRead(members=A, path="f", keep=0.25, first=2, last=2)
    async with office(fault) as at:
        (at.data / "f").write_bytes(bytes(range(100)))
        async with at.broken(fault) as landing:
            assert len(await at.ask("a", "read", "f")) == 100
            assert await at.ask("a", "read", "f") == list(range(25))
            assert len(await at.ask("a", "read", "f")) == 100
            evidence = await proof(landing)
            assert (evidence["there"], evidence["given"]) == (100, 25)


@pytest.mark.parametrize(("keep", "there"), [(0.5, bytes(range(101))), (0.0, b"")])
async def test_a_reader_that_reads_on_gets_all_of_it_and_one_that_is_told_of_an_end_nothing(
    office: Any, keep: float, there: bytes
) -> None:
    fault = ShortRead(members=A, path="f", keep=keep)
    async with office(fault) as at:
        (at.data / "f").write_bytes(bytes(range(101)))
        async with at.broken(fault):
            assert await at.ask("a", "copy", "f", "copy") == hashlib.blake2b(there).hexdigest()


async def test_a_torn_write_is_acknowledged(office: Any) -> None:
    fault = TornWrite(members=A, path="f", keep=0.4)
    async with office(fault) as at:
        async with at.broken(fault) as landing:
            assert await at.ask("a", "write", "f", [7] * 1000) == 1000
            assert (at.data / "f").read_bytes() == b"\7" * 400
            evidence = await proof(landing)
            assert (evidence["written"], evidence["kept"]) == (1000, 400)
            assert await at.ask("a", "write", "f", [7] * 1000) == 1000
        assert (at.data / "f").read_bytes() == b"\7" * 1000
        assert landing.healed["views"][0]["hits"] == 1


async def test_a_throttled_disk_takes_its_time(office: Any) -> None:
    fault = Throttle(members=A, rate=500_000)
    async with office(fault) as at:
        async with at.broken(fault) as landing:
            done = await at.ask_fully("a", "write", "f", [1] * 200_000)
            assert done.data["took"] >= 0.4
            assert (await proof(landing))["bytes"] > 0
        assert (await at.ask_fully("a", "write", "f", [1] * 200_000)).data["took"] < 0.4
        view = landing.healed["views"][0]
        assert view["bytes"] == 200_000
        assert view["seconds"] == pytest.approx(0.4)


async def test_one_member_is_behind_and_the_others_are_not(office: Any) -> None:
    fault = StaleMetadata(members=A, path="shared/**")
    async with office(fault) as at:
        shared = at.data / "shared"
        shared.mkdir()
        (shared / "old").write_bytes(b"old")
        (shared / "doomed").write_bytes(b"x")
        whole = StaleMetadata(members=A)
        async with at.broken(whole) as landing:
            assert await at.ask("b", "write", "shared/new", [1]) == 1
            assert await at.ask("b", "write", "shared/old", [1] * 9) == 9
            (shared / "doomed").unlink()
            assert await at.ask("b", "list", "shared") == ["new", "old"]
            assert await at.ask("a", "list", "shared") == ["doomed", "old"]
            assert await at.ask("a", "size", "shared/new") == "FileNotFoundError"
            assert await at.ask("a", "size", "shared/old") == 3
            assert await at.ask("a", "size", "shared/doomed") == 1
            assert await at.ask("a", "read", "shared/doomed") == 116  # ESTALE
            assert await at.ask("a", "write", "shared/mine", [5] * 4) == 4
            assert await at.ask("a", "size", "shared/mine") == 4
            assert await at.ask("a", "list", "shared") == ["doomed", "mine", "old"]
            assert await at.ask("b", "list", "shared") == ["mine", "new", "old"]
            evidence = await proof(landing)
            assert evidence["op"] in ("list", "stat")
        assert await at.ask("a", "list", "shared") == ["mine", "new", "old"]
        assert await at.ask("a", "size", "shared/old") == 9
        assert landing.healed["views"][0]["hits"] >= 4


async def test_who_sees_the_bare_folder_cannot_be_lied_to(office: Any) -> None:
    async with office(BitRot(members=A, path="x")) as at:
        wrong = BitRot(members=Selector(names=("b",)), path="x")
        with pytest.raises(NotLanded, match="b sees the bare folder"):
            async with at.broken(wrong):
                pass


async def test_a_member_that_is_started_again_is_lied_to_as_before(office: Any) -> None:
    fault = BitRot(members=A, path="f", at=0)
    async with office(fault) as at:
        (at.data / "f").write_bytes(b"\0")
        async with at.broken(fault) as landing:
            member = next(m for m in at.target.members() if m.name == "a")
            os.kill(member.pid, 9)
            await at.stage.until("member.exited", "a")
            await at.target.start_again("a")
            await at.stage.until("it.runs", "a", times=2)
            assert await at.ask("a", "read", "f") == [1]
            assert (await proof(landing))["given"] == 1
        assert await at.ask("a", "read", "f") == [0]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
async def test_a_file_system_that_no_longer_answers_is_not_healed(
    office: Any, monkeypatch: pytest.MonkeyPatch, how: signal.Signals
) -> None:
    monkeypatch.setattr(fuse, "ANSWER", 0.5)
    fault = StaleMetadata(members=A)
    async with office(fault) as at:
        standing = at.broken(fault)
        await standing.__aenter__()
        for server in servers():
            os.kill(int(server), how)
        with pytest.raises(HealFailed, match="of a does not answer, and its program lives"):
            await standing.__aexit__(None, None, None)


async def test_what_a_member_changes_itself_is_no_lie(office: Any) -> None:
    fault = StaleMetadata(members=A)
    async with office(fault) as at:
        async with at.broken(fault) as landing:
            await at.ask("a", "write", "mine", [1, 2])
            await at.ask("a", "size", ".")
            assert await at.ask("a", "size", "mine") == 2
        (view,) = landing.healed["views"]
        assert view["hits"] == 0, view


async def test_nobody_is_fitted_without_need(stage: Recorder, launch: Make) -> None:
    async with Process().open(launch({"a": CLERK}, env={"ORDERS": "/dev/null/"}), stage) as target:
        await target.wait_ready()
        assert not isinstance(target, Views)


def test_what_a_machine_lacks_for_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "needs the lab" in fuse.missing(lab=False)

    def closed(path: str, flags: int) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", closed)
    assert "fuse needs /dev/fuse (Permission denied" in fuse.missing(lab=True)


def test_servers_do_not_outlive_the_run() -> None:
    deadline = time.monotonic() + 2.0
    while servers() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not servers()


def servers() -> list[str]:
    """Servers whose harness is this process."""
    mark = f"\0{os.getpid()}\0/proc/".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if b"fuse_server.py" in (words := path.read_bytes()) and mark in words:
                found.append(path.parent.name)
        except OSError:
            continue
    return found
