"""The faults on file operations, against real processes: what the writer sees, what is in the file, the heal."""

from __future__ import annotations

import anyio
import pytest

from chaos.api import Selector
from chaos.faults.storage.error import Error
from chaos.faults.storage.failed_fsync import FailedFsync
from chaos.faults.storage.full import Full
from chaos.faults.storage.kill import Kill
from chaos.faults.storage.lost_write import LostWrite
from chaos.faults.storage.lying_fsync import LyingFsync
from chaos.faults.storage.read_only import ReadOnly
from chaos.faults.storage.slow import Slow
from chaos.testing import Recorder

from .conftest import Open, Strike, data, filtered, release, said

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

SAVES = """
go()
for i in range(4):
    try:
        with open(f"{data}/half", "wb") as file:
            file.write(b"x" * 10)
            file.flush()
            os.fsync(file.fileno())
        os.rename(f"{data}/half", f"{data}/whole-{i}")
        say("saved", i)
    except OSError as error:
        say(type(error).__name__, error.errno, i)
go()
"""


async def test_the_writer_gets_the_error_and_then_does_not(tapped: Open, strike: Strike, stage: Recorder) -> None:
    fault = Error(path="half", ops=("fsync",), first=2, last=3)
    async with tapped({"a": SAVES}, fault) as target, strike(fault, target) as landing:
        await stage.until_line("a", "saved", times=2)
        (member,) = target.members()
    assert said(stage) == ["saved 0", "OSError 5 1", "OSError 5 2", "saved 3"]
    proof = {key: landing.evidence[key] for key in ("member", "pid", "op", "path", "n", "errno")}
    assert proof == {"member": "a", "pid": member.pid, "op": "fsync", "path": "half", "n": 2, "errno": "EIO"}
    assert (landing.healed["matched"], landing.healed["hits"]) == (4, 2)


async def test_a_healed_fault_hits_nobody_any_more(tapped: Open, strike: Strike, stage: Recorder) -> None:
    fault = Error(path="**", ops=("rename",), errno="EACCES")
    again = "go()\n" + SAVES.replace("go()\nfor", "for").replace("go()\n", "") + SAVES
    async with tapped({"a": again}, fault) as target:
        async with strike(fault, target):
            await stage.until("point.reached", times=2)
        release(stage)
        await stage.until_line("a", "saved", times=4)
    assert said(stage) == [f"PermissionError 13 {i}" for i in range(4)] + [f"saved {i}" for i in range(4)]


async def test_a_full_disk_takes_nothing_and_gives_back(tapped: Open, strike: Strike, stage: Recorder) -> None:
    fault = Full(path="sub/**")
    program = """
os.mkdir(f"{data}/sub")
open(f"{data}/sub/old", "w").write("old")
go()
for what in (lambda: open(f"{data}/sub/new", "w"), lambda: os.mkdir(f"{data}/sub/folder"),
             lambda: os.write(os.open(f"{data}/sub/old", os.O_WRONLY), b"new"),
             lambda: say(open(f"{data}/sub/old").read()), lambda: os.unlink(f"{data}/sub/old"),
             lambda: open(f"{data}/beside", "w")):
    try:
        what()
        say("done")
    except OSError as error:
        say(error.strerror)
go()
"""
    async with tapped({"a": program}, fault) as target, strike(fault, target) as landing:
        await stage.until_line("a", "done", times=3)
        await stage.until("point.reached", times=2)
        assert not (data(target) / "sub/new").exists()
    assert said(stage) == ["No space left on device"] * 3 + ["old", "done", "done", "done"]
    assert [hit["op"] for hit in landing.healed["first"]] == ["create", "mkdir", "write"]


async def test_a_read_only_store_changes_nothing(tapped: Open, strike: Strike, stage: Recorder) -> None:
    fault = ReadOnly(path="**")
    program = """
open(f"{data}/old", "w").write("old")
go()
for what in (lambda: open(f"{data}/new", "w"), lambda: os.rename(f"{data}/old", f"{data}/other"),
             lambda: os.unlink(f"{data}/old"), lambda: os.truncate(f"{data}/old", 0), lambda: os.mkdir(f"{data}/f"),
             lambda: os.symlink("old", f"{data}/link"), lambda: say(open(f"{data}/old").read())):
    try:
        what()
    except OSError as error:
        say(error.strerror)
go()
"""
    async with tapped({"a": program}, fault) as target, strike(fault, target):
        await stage.until("point.reached", times=2)
        assert [path.name for path in data(target).iterdir()] == ["old"]
    assert said(stage) == ["Read-only file system"] * 6 + ["old"]


SLOW = """
def beside():
    with open(f"{data}/beside", "w") as file:
        file.write("b")
    say("beside")
go()
other = threading.Thread(target=beside)
began = time.monotonic()
file = os.open(f"{data}/slow", os.O_CREAT | os.O_WRONLY)
other.start()
os.write(file, b"s")
say("slow", round(time.monotonic() - began, 2))
other.join()
go()
"""


async def test_a_slow_call_takes_that_long_and_others_go_on(tapped: Open, strike: Strike, stage: Recorder) -> None:
    fault = Slow(path="slow", delay=0.6, ops=("write",))
    async with tapped({"a": SLOW}, fault) as target, strike(fault, target) as landing:
        await stage.until_line("a", "slow")
        assert (data(target) / "slow").read_bytes() == b"s"
    assert said(stage)[0] == "beside"
    assert float(said(stage)[1].split()[1]) >= 0.6
    assert landing.healed["first"][0]["waited"] >= 0.6


async def test_what_is_held_goes_on_with_the_heal(tapped: Open, strike: Strike, stage: Recorder) -> None:
    fault = Slow(path="slow", delay=600.0, ops=("write",))
    async with tapped({"a": SLOW}, fault) as target:
        async with strike(fault, target) as landing:
            await stage.until_line("a", "beside")
            assert (data(target) / "slow").read_bytes() == b""
        await stage.until_line("a", "slow")
        assert landing.healed["let-go"] == 1
        assert (data(target) / "slow").read_bytes() == b"s"


@pytest.mark.parametrize(("torn", "left"), [(None, b""), (3, b"012")])
async def test_a_process_is_killed_in_the_middle_of_its_write(
    tapped: Open, strike: Strike, stage: Recorder, torn: int | None, left: bytes
) -> None:
    fault = Kill(path="file", ops=("write",), nth=2, torn=torn)
    program = """
go()
file = open(f"{data}/file", "wb", buffering=0)
file.write(b"begun ")
file.write(b"0123456789")
say("lives")
"""
    async with tapped({"a": program}, fault) as target, strike(fault, target) as landing:
        exited = await stage.until("member.exited", "a")
        assert (data(target) / "file").read_bytes() == b"begun " + left
    assert exited.get("code") == -9
    assert said(stage) == []
    assert landing.evidence["pid"] == exited.get("pid")
    assert landing.evidence["ended-within"] < 5
    assert landing.evidence.get("torn") == torn


async def test_a_sync_that_lies_is_not_carried_out(tapped: Open, strike: Strike, stage: Recorder) -> None:
    fault = LyingFsync(path="/dev/null")  # which the kernel refuses to sync: so a success is a lie
    program = """
file = os.open("/dev/null", os.O_WRONLY)
def sync():
    try:
        os.fsync(file)
        say("synced")
    except OSError as error:
        say(error.strerror)
sync()
go()
sync()
go()
sync()
"""
    async with tapped({"a": program}, fault) as target:
        async with strike(fault, target) as landing:
            await stage.until("point.reached", times=2)
        release(stage)
        await stage.until_line("a", "Invalid", times=2)
    assert said(stage) == ["Invalid argument", "synced", "Invalid argument"]
    assert landing.evidence["reported"] == "done"


async def test_a_lost_write_leaves_its_length_and_not_its_bytes(tapped: Open, strike: Strike, stage: Recorder) -> None:
    fault = LostWrite(path="file", nth=2)
    program = """
go()
file = open(f"{data}/file", "wb", buffering=0)
say(*(file.write(piece) for piece in (b"one ", b"two ", b"three")))
"""
    async with tapped({"a": program}, fault) as target, strike(fault, target) as landing:
        await stage.until_line("a", "4")
        assert (data(target) / "file").read_bytes() == b"one \0\0\0\0three"
    assert said(stage) == ["4 4 5"]
    assert landing.evidence["lost"] == 4


async def test_a_failed_sync_loses_what_was_not_synced_and_the_next_one_succeeds(
    tapped: Open, strike: Strike, stage: Recorder
) -> None:
    fault = FailedFsync(path="**", nth=2)
    program = """
file = os.open(f"{data}/file", os.O_CREAT | os.O_RDWR)
os.write(file, b"synced text")
go()
os.fsync(file)
os.pwrite(file, b"DIRTY!", 2)
os.lseek(file, 0, os.SEEK_END)
os.writev(file, [b" and", b" more"])
os.truncate(f"{data}/file", 15)
for _ in range(2):
    try:
        os.fsync(file)
        say("synced")
    except OSError as error:
        say(error.strerror)
go()
"""
    async with tapped({"a": program}, fault) as target, strike(fault, target) as landing:
        await stage.until_line("a", "synced")
        assert (data(target) / "file").read_bytes() == b"synced text"
    assert said(stage) == ["Input/output error", "synced"]
    assert (landing.evidence["size-before"], landing.evidence["size-after"]) == (15, 11)
    assert landing.evidence["dropped"] >= 10


async def test_an_operation_of_others_is_not_hit(tapped: Open, strike: Strike, stage: Recorder) -> None:
    fault = Error(path="**", ops=("rename",), members=Selector(names=("b",)))
    async with tapped({"a": SAVES, "b": SAVES}, fault) as target, strike(fault, target) as landing:
        await stage.until("point.reached", "a", times=2)
        await stage.until("point.reached", "b", times=2)
        assert {m.name: filtered(m) for m in target.members()} == {"a": False, "b": True}
    assert said(stage, "a") == [f"saved {i}" for i in range(4)]
    assert said(stage, "b") == [f"OSError 5 {i}" for i in range(4)]
    assert landing.healed["hits"] == 4


async def test_a_fault_that_nobody_runs_into_never_lands(tapped: Open, stage: Recorder) -> None:
    fault = Error(path="elsewhere/**")
    async with tapped({"a": SAVES}, fault) as target:
        tap = await target.tap(fault.rule(), None)  # type: ignore[attr-defined]
        await stage.until("point.reached", "a")
        release(stage)
        with anyio.move_on_after(0.5) as limit:
            await tap.first(lambda: None)
        await stage.until_line("a", "saved", times=4)
        assert limit.cancelled_caught
        assert (await tap.lift())["matched"] == 0


async def test_a_killed_member_is_started_again_where_that_is_asked_for(
    tapped: Open, strike: Strike, stage: Recorder
) -> None:
    fault = Kill(path="file", ops=("create",), again=True)
    program = """
go()
open(f"{data}/file", "w").close()
say("made")
"""
    async with tapped({"a": program}, fault) as target:
        async with strike(fault, target) as landing:
            await stage.until("member.exited", "a")
        first, second = landing.evidence["pid"], target.members()[0].pid
        assert first != second
        await stage.until("point.reached", "a", times=2)
        release(stage)
        await stage.until_line("a", "made")


@pytest.mark.parametrize(
    ("copy", "left"),
    [
        ("os.sendfile(new.fileno(), old.fileno(), 2, 8)", b"234"),
        ("os.sendfile(new.fileno(), old.fileno(), None, 8)", b"456"),
        ("os.copy_file_range(old.fileno(), new.fileno(), 8, offset_src=1)", b"123"),
        ("os.copy_file_range(old.fileno(), new.fileno(), 8)", b"456"),
        ("os.copy_file_range(old.fileno(), new.fileno(), 2)", b"45"),
    ],
)
async def test_a_process_is_killed_in_the_middle_of_a_copy_within_the_kernel(
    tapped: Open, strike: Strike, stage: Recorder, copy: str, left: bytes
) -> None:
    fault = Kill(path="copy", ops=("write",), torn=3)
    program = f"""
open(f"{{data}}/file", "w").write("0123456789")
go()
with open(f"{{data}}/file", "rb") as old, open(f"{{data}}/copy", "wb") as new:
    os.lseek(old.fileno(), 4, os.SEEK_SET)
    {copy}
"""
    async with tapped({"a": program}, fault) as target, strike(fault, target) as landing:
        await stage.until("member.exited", "a")
        assert (data(target) / "copy").read_bytes() == left
    assert landing.evidence["syscall"] == copy[3:].partition("(")[0]
    assert landing.evidence["torn"] == len(left)


async def test_a_torn_reservation_is_only_killed(tapped: Open, strike: Strike, stage: Recorder) -> None:
    fault = Kill(path="copy", ops=("write",), torn=3)
    program = """
go()
with open(f"{data}/copy", "wb") as new:
    os.posix_fallocate(new.fileno(), 0, 10)
"""
    async with tapped({"a": program}, fault) as target, strike(fault, target) as landing:
        await stage.until("member.exited", "a")
        assert (data(target) / "copy").read_bytes() == b""
    assert landing.evidence["syscall"] == "fallocate"
    assert "torn" not in landing.evidence
