"""Nodes and disks that really lose power, and come back."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import msgspec
import pytest

from chaos.api import Launch, Programs, Selector
from chaos.drivers.process import Process
from chaos.drivers.process.fittings import disk as disks
from chaos.drivers.process.fittings import fuse
from chaos.drivers.process.fittings.losses import losses
from chaos.drivers.process.fittings.tap.probe import probe
from chaos.drivers.process.target import ProcessTarget
from chaos.errors import NotLanded, Unsupported
from chaos.faults.domain.power_off import PowerOff
from chaos.faults.storage.power_cut import PowerCut
from chaos.selection import select
from chaos.storage import Power, PoweredDisks
from chaos.testing import Recorder

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
Make = Callable[..., Launch]
ROOT = Path(__file__).parents[2]

SLEEPER = """
    import os, signal
    from chaos import inside
    inside.hello(os.environ["CHAOS_MEMBER"], role="program")
    inside.emit("it.runs")
    signal.pause()
"""
# Its child leaves its session and its environment, and says nothing to anybody.
PARENT = """
    import os, signal, sys
    from chaos import inside
    if os.fork() == 0:
        os.setsid()
        os.execve(sys.executable, [sys.executable, "-c", "import signal; signal.pause()", "loner"], {})
    inside.hello(os.environ["CHAOS_MEMBER"], role="program")
    inside.emit("it.runs")
    signal.pause()
"""
# The classic ways to write a file, and what each was meant to be safe against.
WRITER = """
    import os, signal
    from pathlib import Path
    from chaos import inside

    def sync(path):
        handle = os.open(path, os.O_RDONLY)
        os.fsync(handle)
        os.close(handle)

    def write(name, file=False, folder=False):
        half = disk / f"{name}.half"
        half.write_bytes(b"new" * 1000)
        if file:
            sync(half)
        half.rename(disk / name)
        if folder:
            sync(disk)

    disk = Path(os.environ["CHAOS_DATA"], "disk")
    if not (disk / "whole").exists():
        (disk / "old").write_bytes(b"old")
        sync(disk / "old")
        (disk / "folder").mkdir()
        sync(disk)
        write("whole", file=True, folder=True)
        write("unsynced")
        write("nameless", file=True)  # which writes the journal, so that "unsynced" has its name and no content
        write("old")
        (disk / "late").mkdir()
    inside.emit("it.runs", found=sorted(os.listdir(disk)))
    signal.pause()
"""


def need_disks(mechanism: str = "fsshutdown") -> None:
    if mechanism == "replay":
        probe_or_skip()
    elif reason := disks.missing(lab=True) or disks.attempt():
        pytest.skip(reason)


def probe_or_skip() -> None:
    try:
        probe()
    except Unsupported as error:
        pytest.skip(str(error))


def fitted(launch: Launch, fault: PowerCut) -> Launch:
    return msgspec.structs.replace(launch, faults=(fault,))


async def test_a_member_can_be_started_again_once_it_has_ended(stage: Recorder, launch: Make) -> None:
    async with Process().open(launch({"a": SLEEPER, "b": SLEEPER}, lab=False), stage) as target:
        await target.wait_ready()
        assert isinstance(target, Programs)
        assert target.programs() == ("a", "b")
        await stage.until("it.runs", "a")
        with pytest.raises(NotLanded, match="a has not ended"):
            await target.start_again("a")
        with pytest.raises(NotLanded, match="the harness did not start c: a, b can be started again"):
            await target.start_again("c")
        before = next(m for m in target.members() if m.name == "a")
        os.kill(before.pid, 9)
        await stage.until("member.exited", "a")
        again = await target.start_again("a")
        await stage.until("it.runs", "a", times=2)
        assert again.pid != before.pid
        assert {m.name for m in target.members()} == {"a", "b"}


@pytest.mark.parametrize("lab", [True, False], ids=["lab", "no-lab"])
async def test_a_node_without_power_has_no_process_and_gets_its_own_ones_back(
    stage: Recorder, launch: Make, lab: bool
) -> None:
    nodes = [{"name": "n-a"}, {"name": "n-b"}]
    made = launch({"a": PARENT, "b": SLEEPER}, lab=lab, node="n-", nodes=nodes)
    async with Process().open(made, stage) as target:
        await target.wait_ready()
        for name in ("a", "b"):
            await stage.until("it.runs", name)
        assert isinstance(target, Power)
        assert isinstance(target, ProcessTarget)
        fault = PowerOff(members=Selector(nodes=("n-a",)))
        hit = select(fault.selectors(), Process().slots(made.spec), target.members(), ("n-a", "n-b"))
        (before,) = hit[0].members
        async with fault.inject(target, *hit) as landing:
            assert landing.evidence["ended"] == [f"a (pid {before.pid})"]
            assert landing.evidence["other_processes"] == int(lab)  # only the lab knows those who hide
            assert target.state(before) == "X"
            assert [m.name for m in target.members()] == ["b"]
            with pytest.raises(NotLanded, match="nobody is on n-a"):
                await target.power_off(("n-a",))
        await stage.until("it.runs", "a", times=2)
        assert landing.healed["started"].keys() == {"a"}
        assert {m.name for m in target.members()} == {"a", "b"}
    for pid in loners():
        os.kill(pid, 9)


def loners() -> list[int]:
    """Only without a lab: nothing tells whose they were."""
    return [int(p.parent.name) for p in Path("/proc").glob("[0-9]*/cmdline") if b"\0loner\0" in _content(p)]


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


async def test_a_job_whose_deciding_members_have_no_power_has_not_ended(stage: Recorder, launch: Make) -> None:
    made = launch({"a": SLEEPER}, lab=False, node="n-", ends={"role": "program"})
    async with Process().open(made, stage) as target:
        await target.wait_ready()
        await stage.until("it.runs")
        assert isinstance(target, ProcessTarget)
        await target.power_off(("n-a",))
        assert target._finished() is None
        await target.power_on(("n-a",))
        await stage.until("it.runs", times=2)
        os.kill(target.members()[0].pid, 9)
        assert (await target.wait_finished()).code == -9


@pytest.mark.parametrize("mechanism", ["fsshutdown", "replay"])
async def test_a_power_cut_loses_exactly_what_was_not_synced(
    stage: Recorder, launch: Make, mechanism: Literal["fsshutdown", "replay"]
) -> None:
    """Both agree on what must be kept and on what must not; of a name without content they may think differently."""
    need_disks(mechanism)
    fault = PowerCut(members=Selector(nodes=("n-w",)), disk="disk", require_loss=True, mechanism=mechanism)
    made = fitted(launch({"w": WRITER}, node="n-", nodes=[{"name": "n-w"}]), fault)
    async with Process().open(made, stage) as target:
        await target.wait_ready()
        await stage.until("it.runs")
        assert isinstance(target, PoweredDisks)
        assert isinstance(target, ProcessTarget)
        assert target.mechanisms()["disk"].startswith(mechanism)
        hit = select(fault.selectors(), Process().slots(made.spec), target.members(), ("n-w",))
        async with fault.inject(target, *hit) as landing:
            root = target.data_root() / "disk"
            assert (root / "whole").read_bytes() == b"new" * 1000
            assert (root / "old").read_bytes() == b"old"
            assert (root / "unsynced").exists() == (mechanism == "fsshutdown")  # another file's sync wrote the journal
            assert mechanism == "replay" or (root / "unsynced").read_bytes() == b""
            assert not (root / "late").exists()
            evidence = landing.evidence
            assert evidence["mechanism"] == mechanism
            if mechanism == "fsshutdown":
                assert (evidence["refused"], evidence["unsynced_file"]["left"]) == ("EIO", "nothing")
                assert evidence["seconds"] < 3.0
            left = {entry["path"]: entry["left"] for entry in evidence["lost"]}
            assert left["late/"] == left["nameless"] == "nothing"
            assert left["unsynced"] == "nothing" or left["unsynced"]["bytes"] == 0
            assert left["old"]["bytes"] == 3
            assert left.keys() == {"late/", "nameless", "unsynced", "old"}
        again = await stage.until("it.runs", times=2)
        assert "whole" in again.data["found"]
        assert "late" not in again.data["found"]
    assert not mounted(made.folder)
    assert not attached(made.folder)


@pytest.mark.parametrize("mechanism", ["fsshutdown", "replay"])
async def test_a_disk_that_nobody_uses_has_not_lost_its_power(
    stage: Recorder, launch: Make, mechanism: Literal["fsshutdown", "replay"]
) -> None:
    need_disks(mechanism)
    fault = PowerCut(members=Selector(nodes=("n-w",)), disk="dikc", mechanism=mechanism)
    made = fitted(launch({"w": WRITER.replace('"disk")', '"")')}, node="n-", nodes=[{"name": "n-w"}]), fault)
    async with Process().open(made, stage) as target:
        await target.wait_ready()
        await stage.until("it.runs")
        assert isinstance(target, PoweredDisks)
        hit = select(fault.selectors(), Process().slots(made.spec), target.members(), ("n-w",))
        with pytest.raises(NotLanded, match="nothing lay on dikc"):
            async with fault.inject(target, *hit):
                pass


async def test_a_disk_that_somebody_else_uses_is_not_cut_off_from_him(stage: Recorder, launch: Make) -> None:
    need_disks()
    other = """
        import os, signal
        from pathlib import Path
        from chaos import inside
        file = open(Path(os.environ["CHAOS_DATA"], "disk", "mine"), "wb", buffering=0)
        inside.emit("it.runs")
        signal.signal(signal.SIGUSR2, lambda *_: inside.emit("it.wrote", bytes=file.write(b"still here")))
        while True:
            signal.pause()
    """
    fault = PowerCut(members=Selector(nodes=("n-w",)), disk="disk")
    made = fitted(launch({"w": SLEEPER, "x": other}, node="n-", nodes=[{"name": "n-w"}, {"name": "n-x"}]), fault)
    async with Process().open(made, stage) as target:
        await target.wait_ready()
        for name in ("w", "x"):
            await stage.until("it.runs", name)
        assert isinstance(target, PoweredDisks)
        hit = select(fault.selectors(), Process().slots(made.spec), target.members(), ("n-w", "n-x"))
        with pytest.raises(NotLanded, match=r"disk is used by process \d+"):
            async with fault.inject(target, *hit):
                pass
        os.kill(next(m.pid for m in target.members() if m.name == "x"), 12)
        assert (await stage.until("it.wrote")).data["bytes"] == 10
        await stage.until("it.runs", "w", times=2)


def test_a_killed_harness_leaves_no_mount_no_loop_device_and_no_server(tmp_path: Path) -> None:
    need_disks()
    if reason := fuse.missing(lab=True):
        pytest.skip(reason)
    program = Path(__file__).with_name("diskful.py")
    command = [sys.executable, str(program), str(tmp_path / "run")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as harness:
        assert harness.stdout is not None
        assert harness.stdout.readline() == b"mounted\n"
        assert attached(tmp_path)
        assert len(helpers(tmp_path)) == 1
        assert not mounted(tmp_path), "the machine sees a mount of the lab"
        harness.kill()
    deadline = time.monotonic() + 2.0
    while (attached(tmp_path) or helpers(tmp_path)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not attached(tmp_path)
    assert not helpers(tmp_path)
    assert not mounted(tmp_path)


def helpers(folder: Path) -> list[Path]:
    """Servers of fault file systems on data below the folder."""
    words = ((p, _content(p)) for p in Path("/proc").glob("[0-9]*/cmdline"))
    return [p for p, line in words if b"fuse_server.py" in line and str(folder).encode() in line]


@pytest.mark.parametrize("mechanism", ["best", "fsshutdown"])
async def test_a_machine_that_cannot_replays_unless_the_real_thing_is_asked_for(
    stage: Recorder, launch: Make, monkeypatch: pytest.MonkeyPatch, mechanism: Literal["best", "fsshutdown"]
) -> None:
    probe_or_skip()
    monkeypatch.setattr(disks, "missing", lambda lab: "fsshutdown needs root")
    fault = PowerCut(members=Selector(nodes=("n-w",)), disk="disk", mechanism=mechanism)
    made = fitted(launch({"w": SLEEPER}, node="n-", nodes=[{"name": "n-w"}]), fault)
    async with Process().open(made, stage) as target:
        await target.wait_ready()
        assert isinstance(target, ProcessTarget)
        said = target.mechanisms()
        if mechanism == "best":
            assert isinstance(target, PoweredDisks)
            assert said["disk"].startswith("replay: bytes as of the last fsync of a file")
            assert said["disk"].endswith("fsshutdown needs root")
        else:
            assert not isinstance(target, PoweredDisks)
            assert said["disk-refused"] == "fsshutdown needs root; `mechanism: replay` does without"


async def test_a_run_has_one_way_to_cut_the_power(stage: Recorder, launch: Make) -> None:
    members = Selector(nodes=("n-w",))
    faults = tuple(PowerCut(members=members, disk="disk", mechanism=way) for way in ("replay", "fsshutdown"))
    made = msgspec.structs.replace(launch({"w": SLEEPER}, node="n-", nodes=[{"name": "n-w"}]), faults=faults)
    async with Process().open(made, stage) as target:
        await target.wait_ready()
        assert isinstance(target, ProcessTarget)
        assert "a run has one `mechanism`" in target.mechanisms()["disk-refused"]


def mounted(folder: Path) -> list[str]:
    """Mounts below the folder that the machine sees."""
    return [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(folder) in line]


def attached(folder: Path) -> list[Path]:
    """Loop devices with an image below the folder."""
    return [p for p in Path("/sys/block").glob("loop*/loop/backing_file") if str(folder).encode() in _content(p)]


def test_losses_tell_what_went_what_shrank_and_what_came_back() -> None:
    before = {"gone": [3, "a"], "shorter": [9, "b"], "kept": [5, "c"], "folder/": [], "empty/": []}
    after = {"shorter": [0, "z"], "kept": [5, "c"], "half": [3, "a"], "folder/": []}
    found = losses(before, after)
    assert found["lost"] == [
        {"path": "empty/", "left": "nothing"},
        {"path": "gone", "bytes": 3, "digest": "a", "left": "nothing"},
        {"path": "shorter", "bytes": 9, "digest": "b", "left": {"bytes": 0, "digest": "z"}},
    ]
    assert found["came_back"] == ["half"]
    assert (found["lost_entries"], found["kept_entries"], found["kept_bytes"]) == (3, 2, 5)
    assert "nothing_unsynced" in losses(before, before)
    assert "nothing_unsynced" not in found


@pytest.mark.parametrize(("lab", "rights", "needs"), [(False, "1ff", "the lab"), (True, "0", "root")])
def test_what_a_machine_lacks_for_it_is_said(
    monkeypatch: pytest.MonkeyPatch, lab: bool, rights: str, needs: str
) -> None:
    monkeypatch.setattr(Path, "read_text", lambda path: f"CapEff:\t{rights}\n")
    assert needs in disks.missing(lab)
