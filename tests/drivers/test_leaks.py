"""A harness that is killed leaves no process, namespace, mount or link behind, whenever it happens."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from chaos.drivers.process.fittings.disk import missing
from ci.traces import Place, adopt, await_no_process, await_nothing, born, end_descendants, stand_apart

from .conftest import need_user_namespaces
from .fitted import FAULTS

pytestmark = pytest.mark.slow

HARNESS = Path(__file__).with_name("harness.py")
FITTED = Path(__file__).with_name("fitted.py")
TALKERS = Path(__file__).with_name("talkers.py")
ROOT = Path(__file__).parents[2]
ROUNDS = 20


def living() -> list[Path]:
    """Every process but ourselves and those that are only waiting for their parent to look."""
    return [p for p in Path("/proc").glob("[0-9]*") if int(p.name) != os.getpid() and state(p) not in "ZX"]


def state(process: Path) -> str:
    try:
        return (process / "stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "X"


def marked(mark: str) -> list[Path]:
    """Living processes with that mark in their environment or command line."""
    found = []
    for process in living():
        with contextlib.suppress(OSError):
            if mark.encode() in (process / "cmdline").read_bytes() + (process / "environ").read_bytes():
                found.append(process)
    return found


def namespaces(processes: Iterable[Path]) -> set[str]:
    """Network, mount and process namespaces that these processes are in."""
    found = set()
    for process in processes:
        with contextlib.suppress(OSError):
            found |= {os.readlink(process / "ns" / kind) for kind in ("net", "mnt", "pid")}
    return found


@pytest.mark.timeout(120)
@pytest.mark.parametrize("lab", ["lab", "no-lab"])
def test_a_harness_killed_at_any_moment_leaves_nothing(lab: str, tmp_path: Path) -> None:
    dice = random.Random(7)
    mark = f"{tmp_path}/run"
    for moment in sorted(dice.uniform(0.05, 0.9) for _ in range(ROUNDS)):
        harness = start(lab, tmp_path)
        time.sleep(moment)
        harness.send_signal(signal.SIGKILL)
        harness.wait()
        assert gone(mark, within=2.0) == [], f"killed after {moment:.3f} s"


@pytest.mark.timeout(120)
def test_a_killed_harness_leaves_no_namespace(tmp_path: Path) -> None:
    harness = start("lab", tmp_path)
    wait_for(tmp_path / "run" / "data" / "runs")
    made = namespaces(marked(f"{tmp_path}/run")) - namespaces([Path("/proc/self")])
    assert len(made) >= 5  # mount, process, the bridge's network and one for each of two nodes
    harness.send_signal(signal.SIGKILL)
    harness.wait()
    deadline = time.monotonic() + 2.0
    while left := made & namespaces(living()):
        assert time.monotonic() < deadline, left
        time.sleep(0.02)
    assert gone(f"{tmp_path}/run", within=2.0) == []


@pytest.mark.parametrize("how", ["killed", "--once"])
def test_a_connection_that_was_cut_off_does_not_keep_its_network(how: str, tmp_path: Path) -> None:
    """Its last words, which nobody acknowledges, would be sent again and again for two minutes."""
    need_user_namespaces()
    with multiprocessing.get_context("spawn").Pool(1, initializer=stand_apart) as apart:
        assert apart.apply(_what_a_cut_off_talk_leaves, (how, tmp_path / "run")) == []


def _what_a_cut_off_talk_leaves(how: str, folder: Path) -> list[str]:
    command = [sys.executable, str(TALKERS), str(folder), how]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, preexec_fn=born) as harness:
        assert harness.stdout is not None
        assert harness.stdout.readline() == b"cut\n"
        if how == "killed":
            harness.kill()
        assert harness.wait() == (-9 if how == "killed" else 0)
        try:
            return await_nothing(2.0)
        finally:
            end_descendants()


@pytest.mark.parametrize("lab", ["lab", "no-lab"])
def test_a_killed_supervisor_takes_its_members_along(lab: str, tmp_path: Path) -> None:
    harness = start(lab, tmp_path)
    wait_for(tmp_path / "run" / "data" / "runs")
    supervisors = [int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit() and parent(p) == harness.pid]
    assert len(supervisors) == 1
    os.kill(supervisors[0], signal.SIGKILL)
    assert harness.wait(timeout=10) == 0
    assert gone(f"{tmp_path}/run", within=2.0) == []


@pytest.mark.timeout(120)
def test_a_harness_killed_without_a_lab_leaves_no_short_path_to_its_long_one(tmp_path: Path) -> None:
    temporary, deep = tmp_path / "temporary", tmp_path / ("deep" * 20) / ("deeper" * 20)
    temporary.mkdir()
    deep.mkdir(parents=True)
    dice = random.Random(8)
    for moment in sorted(dice.uniform(0.05, 0.9) for _ in range(ROUNDS // 2)):
        harness = start("no-lab", deep, TMPDIR=str(temporary))
        time.sleep(moment)
        harness.send_signal(signal.SIGKILL)
        harness.wait()
        assert gone(f"{deep}/run", within=2.0) == []
        assert list(temporary.iterdir()) == [], f"killed after {moment:.3f} s"


@pytest.mark.parametrize("name", FAULTS)
def test_a_harness_killed_while_a_fault_stands_leaves_nothing_of_what_its_members_were_fitted_with(
    name: str, tmp_path: Path
) -> None:
    need_user_namespaces()
    with multiprocessing.get_context("spawn").Pool(1, initializer=adopt) as apart:
        left = apart.apply(_what_a_fitted_run_leaves, (name, tmp_path))
    if left[:1] == ["refused"]:
        pytest.skip(left[1])
    assert left == []


def _what_a_fitted_run_leaves(name: str, folder: Path) -> list[str]:
    temporary = folder / "temporary"
    temporary.mkdir()
    before = Place.now(temporary)
    command = [sys.executable, str(FITTED), name, str(folder / "run")]
    env = {**os.environ, "TMPDIR": str(temporary)}
    with subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, preexec_fn=born) as harness:
        assert harness.stdout is not None
        said, _, why = harness.stdout.readline().decode().strip().partition(" ")
        if said != "stands":
            return ["refused", f"{name}: {why}"] if said == "refused" else [f"it said {said or 'nothing'} {why}"]
        harness.kill()
        harness.wait()
        deadline = time.monotonic() + 2.0
        try:
            left = await_no_process(deadline)
            while (more := ours(before.added(Place.now(temporary)), folder)) and time.monotonic() < deadline:
                time.sleep(0.02)
            return left + more
        finally:
            end_descendants()


def ours(added: list[str], folder: Path) -> list[str]:
    """Others on this machine come and go meanwhile: in shared memory, with links and disks of their own."""
    return [line for line in added if not line.startswith(("file", "loop", "link")) or str(folder) in line]


@pytest.mark.timeout(120)
def test_a_harness_killed_while_it_tries_a_power_cut_leaves_no_file(tmp_path: Path) -> None:
    if reason := missing(lab=True):
        pytest.skip(reason)
    program = "from chaos.drivers.process.fittings.disk import attempt\nprint(flush=True)\nattempt()"
    dice = random.Random(9)
    for moment in sorted(dice.uniform(0.0, 0.4) for _ in range(ROUNDS // 2)):
        command, env = [sys.executable, "-c", program], {**os.environ, "TMPDIR": str(tmp_path)}
        with subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.PIPE) as harness:
            assert harness.stdout is not None
            harness.stdout.readline()
            time.sleep(moment)
            harness.kill()
        assert gone(str(tmp_path), within=2.0) == []
        assert list(tmp_path.iterdir()) == [], f"killed after {moment:.3f} s"


def start(lab: str, folder: Path, **environment: str) -> subprocess.Popen[bytes]:
    if lab == "lab":
        need_user_namespaces()
    (folder / "run" / "data" / "runs").unlink(missing_ok=True)
    return subprocess.Popen(
        [sys.executable, str(HARNESS), lab, str(folder / "run")], cwd=ROOT, env={**os.environ, **environment}
    )


def wait_for(path: Path, within: float = 10.0) -> None:
    deadline = time.monotonic() + within
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} did not appear"
        time.sleep(0.01)


def gone(mark: str, within: float) -> list[Path]:
    """What is left with that mark after the time."""
    deadline = time.monotonic() + within
    while (left := marked(mark)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return left


def parent(process: Path) -> int:
    try:
        return int((process / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return -1
