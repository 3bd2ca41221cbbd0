"""The tap itself: who is seen, how it is counted, how paths are named, what a signal does, what it is a trigger for."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import anyio
import msgspec
import pytest

from chaos.api import Launch, Selector
from chaos.drivers.process import Process
from chaos.drivers.process.target import ProcessTarget
from chaos.faults.storage.error import Error
from chaos.faults.storage.full import Full
from chaos.testing import Recorder
from chaos.trigger import OnFile

from .conftest import PRELUDE, Open, Strike, data, filtered, release, said, shell

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


MAKES = """
go()
try:
    os.mkdir(f"{data}/x")
except OSError as error:
    say(error.errno)
"""


def records(target: ProcessTarget) -> list[dict[str, object]]:
    """What was written down of the operations, once the target has ended."""
    return [json.loads(line) for line in (data(target).parent / "operations.jsonl").read_text().splitlines()]


async def test_threads_and_children_are_counted_together(tapped: Open, strike: Strike, stage: Recorder) -> None:
    fault = Error(path="x*", ops=("create",), nth=3, errno="ENOSPC")
    program = """
def make(name):
    try:
        open(f"{data}/{name}", "w").close()
        say("made", name)
    except OSError as error:
        say(error.strerror, name)
go()
make("x1")
other = threading.Thread(target=make, args=("x2",))
other.start()
other.join()
if not os.fork():
    make("x3")
    os._exit(0)
os.wait()
os.system(f"touch {data}/x4 && echo made x4")
"""
    async with tapped({"a": program}, fault) as target, strike(fault, target) as landing:
        await stage.until_line("a", "made x4")
        (member,) = target.members()
    assert said(stage) == ["made x1", "made x2", "No space left on device x3", "made x4"]
    assert landing.evidence["member"] == "a"
    assert landing.evidence["pid"] != member.pid, "the child's own"
    assert landing.healed["matched"] == 4


async def test_names_are_followed_to_the_data(tapped: Open, strike: Strike, stage: Recorder, tmp_path: Path) -> None:
    fault = Error(path="deep/file", ops=("open",), errno="EBUSY")
    program = """
os.mkdir(f"{data}/deep")
folder = os.open(f"{data}/deep", os.O_RDONLY)
os.symlink(f"{data}/deep", f"{data}/link")
go()
os.chdir(data)
for name, at in ((f"{data}/deep/file", None), ("deep/file", None), ("file", folder), ("../deep/./file", folder),
                 ("link/file", None)):
    try:
        os.open(name, os.O_CREAT | os.O_WRONLY, dir_fd=at)
        say("opened", name)
    except OSError as error:
        say(error.errno)
go()
"""
    async with tapped({"a": program}, fault) as target, strike(fault, target) as landing:
        await stage.until("point.reached", times=2)
    assert said(stage) == ["16"] * 5
    assert {hit["path"] for hit in landing.healed["first"]} == {"deep/file"}


async def test_a_program_that_nobody_changed_is_stopped_at_its_rename(
    launch: Callable[..., Launch], stage: Recorder
) -> None:
    script = 'cd "$CHAOS_DATA" && for i in 1 2 3; do echo $i > half && mv half manifest.json; done; sleep 60'
    rename = OnFile(path="**/manifest.json", op="rename", nth=2)
    spec = {"members": [shell("a", script)], "stop-grace": "100ms"}
    made = msgspec.structs.replace(launch({}), spec=spec, files=(rename,))
    stage.held["rename manifest.json"] = anyio.Event()
    async with Process().open(made, stage) as target:
        assert isinstance(target, ProcessTarget)
        reached = await stage.until("file.reached", "a")
        assert reached.data["op"] == "rename"
        assert sorted(path.name for path in data(target).iterdir()) == ["half"], "it has not happened yet"
        stage.held["rename manifest.json"].set()
        await stage.until("file.reached", "a", times=3)
        (member,) = target.members()
        assert all(e.data["pid"] != member.pid for e in stage.events if e.kind == "file.reached"), "mv, not sh"
    assert [line["paths"] for line in records(target)] == [["half", "manifest.json"]] * 3


async def test_dd_hits_the_full_disk(launch: Callable[..., Launch], stage: Recorder) -> None:
    fault = Full(path="big", first=3)
    script = 'read x < "$CHAOS_DATA/fifo"; dd if=/dev/zero of="$CHAOS_DATA/big" bs=1k count=9; echo ended $?; sleep 60'
    spec = {"members": [shell("a", script)], "stop-grace": "100ms"}
    made = msgspec.structs.replace(launch({}), spec=spec, faults=(fault,))
    made.folder.joinpath("data").mkdir(parents=True)
    os.mkfifo(made.folder / "data/fifo")
    async with Process().open(made, stage) as target:
        assert isinstance(target, ProcessTarget)
        tap = await target.tap(fault.rule(), None)  # type: ignore[attr-defined]
        with await anyio.to_thread.run_sync(open, made.folder / "data/fifo", "w") as fifo:
            fifo.write("go\n")
        proof = await tap.first(lambda: None)
        await stage.until_line("a", "ended 1")
        assert (data(target) / "big").stat().st_size == 1024, "created, and one block written"
    assert (proof["op"], proof["n"], proof["errno"]) == ("write", 3, "ENOSPC")
    assert any("No space left on device" in line for line in said(stage))


async def test_others_go_on_while_one_is_held(tapped: Open, stage: Recorder) -> None:
    program = """
def held():
    os.rename(f"{data}/half", f"{data}/whole")
    say("renamed")
open(f"{data}/half", "w").close()
thread = threading.Thread(target=held)
thread.start()
os.link(f"{data}/half", f"{data}/other-0")
for i in range(3):
    os.rename(f"{data}/other-{i}", f"{data}/other-{i + 1}")
say("others")
thread.join()
go()
"""
    stage.held["rename whole"] = anyio.Event()
    async with tapped({"a": program}, files=[OnFile(path="whole", op="rename")]) as target:
        await stage.until_line("a", "others")
        assert (data(target) / "half").exists()
        stage.held["rename whole"].set()
        await stage.until_line("a", "renamed")


async def test_who_is_stopped_by_a_signal_meanwhile_is_counted_once(tapped: Open, stage: Recorder) -> None:
    program = """
os.mkdir(f"{data}/folder")
say("made")
go()
"""
    stage.held["mkdir folder"] = anyio.Event()
    async with tapped({"a": program}, files=[OnFile(path="folder", op="mkdir")]) as target:
        await stage.until("file.reached", "a")
        (member,) = target.members()
        await target.signal(member, signal.SIGSTOP)
        assert await target.wait_state(member, "T", 5.0) == "T"
        stage.held["mkdir folder"].set()
        await anyio.wait_all_tasks_blocked()
        assert not (data(target) / "folder").exists(), "stopped is stopped"
        await target.signal(member, signal.SIGCONT)
        await stage.until_line("a", "made")
    assert len([e for e in stage.events if e.kind == "file.reached"]) == 1
    assert len(records(target)) == 1


async def test_a_hit_reaches_whoever_was_interrupted(tapped: Open, strike: Strike, stage: Recorder) -> None:
    fault = Error(path="folder", ops=("mkdir",), errno="EROFS")
    program = """
import signal
signal.signal(signal.SIGALRM, lambda *_: None)
signal.siginterrupt(signal.SIGALRM, False)
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
go()
refused = 0
for i in range(300):
    try:
        os.mkdir(f"{data}/folder")
    except OSError as error:
        refused += error.errno == 30
say("refused", refused)
signal.setitimer(signal.ITIMER_REAL, 0)
go()
"""
    async with tapped({"a": program}, fault) as target, strike(fault, target) as landing:
        await stage.until_line("a", "refused")
    assert said(stage) == ["refused 300"]
    # An answer that crosses a signal is lost after it was taken for delivered: that call comes, and counts, again.
    assert 300 <= landing.healed["matched"] <= 303


async def test_a_worker_that_was_forked_is_known_by_its_name(tapped: Open, strike: Strike, stage: Recorder) -> None:
    fault = Error(path="file", ops=("create",), members=Selector(names=("worker",)))
    program = """
def make():
    try:
        open(f"{data}/file", "w").close()
        say("made")
    except OSError as error:
        say(error.strerror)
if not os.fork():
    inside.hello("worker", role="worker")
    inside.emit("worker.ready")
    go()
    make()
    go()
    os._exit(0)
go()
os.wait()
os.remove(f"{data}/file") if os.path.exists(f"{data}/file") else None
make()
"""
    more = {"announced": [{"name": "worker", "role": "worker"}], "ready": {"event": "worker.ready"}}
    async with tapped({"a": program}, fault, **more) as target, strike(fault, target) as landing:
        await stage.until_line("a", "Input/output error")
    assert landing.evidence["member"] == "worker"


async def test_a_member_forked_from_a_preload_is_tapped_too(
    launch: Callable[..., Launch], stage: Recorder, tmp_path: Path
) -> None:
    (tmp_path / "saver.py").write_text(PRELUDE + MAKES)
    fault = Error(path="x", ops=("mkdir",))
    members = [{"name": "a", "role": "program", "command": ["python", "-m", "saver"], "preload": ["json"]}]
    made = msgspec.structs.replace(
        launch({}, points=("go",)), base=tmp_path, spec={"members": members, "stop-grace": "100ms"}, faults=(fault,)
    )
    async with Process().open(made, stage) as target:
        assert isinstance(target, ProcessTarget)
        await stage.until("point.reached", "a")
        tap = await target.tap(fault.rule(), None)  # type: ignore[attr-defined]
        release(stage)
        await tap.first(lambda: None)
        await stage.until_line("a", "5")


async def test_without_a_lab_it_is_the_same(tapped: Open, strike: Strike, stage: Recorder) -> None:
    fault = Error(path="x", ops=("mkdir",))
    async with tapped({"a": MAKES}, fault, lab=False) as target, strike(fault, target):
        await stage.until_line("a", "5")


async def test_a_run_that_needs_no_tap_has_none(tapped: Open, stage: Recorder) -> None:
    async with tapped({"a": "go()"}) as target:
        await stage.until("point.reached", "a")
        (member,) = target.members()
        assert not filtered(member)
        assert "tap" not in target.mechanisms()
