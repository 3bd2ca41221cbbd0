"""The lab needs no root; and where user namespaces are closed, it says so and what to do instead."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from .conftest import need_user_namespaces

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
HARNESS = Path(__file__).with_name("harness.py")
TAPPED = Path(__file__).parent / "tap" / "harness.py"
NOBODY = 65534
SITE = Path(msgspec.__file__).parents[1]
# Slow a member down and shift its clock; says what the driver made of it, and how it was slowed.
SLOWED = """
import sys, anyio
from pathlib import Path
from chaos.api import Launch, Selection, Selector
from chaos.drivers.process import Process
from chaos.faults.clock.jump import Jump
from chaos.faults.compute.straggler import Straggler
from chaos.testing import Recorder
async def main():
    everybody, folder = Selector(roles=("program",)), Path(sys.argv[1])
    faults = Straggler(members=everybody), Jump(members=everybody, by=3600.0)
    program = {"name": "a", "role": "program", "command": ["python", "-S", "-c", "while True: pass"]}
    launch = Launch(spec={"members": [program]}, settings={}, folder=folder, base=folder, points=(), faults=faults)
    async with Process().open(launch, Recorder()) as target:
        await target.wait_ready()
        print("groups" in target.mechanisms(), "groups-refused" in target.mechanisms())
        for fault in faults[: 1 + ("clock" in target.mechanisms())]:
            async with fault.inject(target, Selection(members=target.members(), nodes=())) as landing:
                print(landing.evidence["mechanism"])
anyio.run(main)
"""
# A member on a node of its own, forked from what was imported: where it runs, and what rights it has.
PRELOADED = """
import sys, anyio
from pathlib import Path
from chaos.api import Launch
from chaos.drivers.process import Process
from chaos.testing import Recorder
MEMBER = '''
import os
print(os.uname().nodename, *[line for line in open("/proc/self/status") if "Cap" in line and "Bnd" not in line])
'''
async def main():
    folder = Path(sys.argv[1])
    (folder / "member.py").write_text(MEMBER)
    member = {"name": "a", "role": "a", "node": "n0", "command": ["python", "-m", "member"], "preload": ["json"]}
    spec = {"members": [member], "nodes": [{"name": "n0"}]}
    stage = Recorder()
    launch = Launch(spec=spec, settings={}, folder=folder, base=folder, points=())
    async with Process().open(launch, stage) as target:
        await target.wait_ready()
        await stage.until("member.exited", "a")
    print((folder / "logs" / "a.log").read_text())
anyio.run(main)
"""
# Enter a user namespace in which no further one may be made, as on a machine that closes them.
CLOSED = """
import ctypes, os, sys
ctypes.CDLL(None).unshare(0x10000000)
open("/proc/sys/user/max_user_namespaces", "w").write("0")
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


def as_nobody(python: str, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{SITE}"}
    return subprocess.run(
        [python, *arguments],
        user=NOBODY, group=NOBODY, extra_groups=[], cwd=folder, env=environment, capture_output=True, text=True,
        timeout=30,
    )  # fmt: skip


@pytest.fixture
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An interpreter that an unprivileged user may run, with the packages of this one."""
    if os.getuid() != 0:
        pytest.skip("not root: all other tests run unprivileged already")
    for python in dict.fromkeys((sys.executable, "/usr/bin/python3")):
        try:
            if as_nobody(python, "-c", "import chaos.api, anyio, pyroute2", folder=Path("/")).returncode == 0:
                return python
        except OSError:
            continue
    pytest.skip("no interpreter that nobody may run has the packages")


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of nobody's that nobody can reach."""
    folder = tmp_path_factory.mktemp("nobody")
    for parent in (folder, *folder.parents):
        if parent.stat().st_uid == 0 and parent != Path("/") and parent != Path("/tmp"):
            parent.chmod(parent.stat().st_mode | 0o011)
    os.chown(folder, NOBODY, NOBODY)
    return folder


def test_nobody_builds_a_lab_and_cuts_its_links(python: str, folder: Path) -> None:
    need_user_namespaces()
    done = as_nobody(python, str(HARNESS), "lab", str(folder / "run"), "--once", folder=folder)
    assert (done.returncode, done.stdout) == (0, "runs 2 True\n"), done.stderr


def test_nobody_loses_packets_and_delays_streams(python: str, folder: Path) -> None:
    need_user_namespaces()
    program = HARNESS.with_name("network_harness.py")
    done = as_nobody(python, str(program), str(folder / "run"), folder=folder)
    assert (done.returncode, done.stdout) == (0, "Loss True\nRate True\nLatency True\n"), done.stderr


def test_nobody_slows_members_by_signals_where_no_control_group_is_his(python: str, folder: Path) -> None:
    need_user_namespaces()
    done = as_nobody(python, "-c", SLOWED, str(folder / "run"), folder=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:2] == ["False True", "duty cycle of SIGSTOP and SIGCONT"]


def test_nobody_forks_members_from_what_was_imported_and_they_have_no_rights(python: str, folder: Path) -> None:
    need_user_namespaces()
    done = as_nobody(python, "-c", PRELOADED, str(folder), folder=folder)
    assert done.returncode == 0, done.stderr
    node, *rights = done.stdout.split()
    assert (node, rights[0::2], {int(mask, 16) for mask in rights[1::2]}) == (
        "n0", ["CapInh:", "CapPrm:", "CapEff:", "CapAmb:"], {0}
    )  # fmt: skip


@pytest.mark.skipif(os.getuid() != 0 or not shutil.which("setpriv"), reason="takes root, and setpriv, to drop rights")
def test_root_without_the_right_to_map_users_builds_a_lab(tmp_path: Path) -> None:
    need_user_namespaces()
    drop = ["setpriv", "--bounding-set=-setuid,-setgid", "--inh-caps=-all"]
    command = [*drop, sys.executable, str(HARNESS), "lab", str(tmp_path / "run"), "--once"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout) == (0, "runs 2 True\n"), done.stderr


def test_nobody_runs_members_without_a_lab(python: str, folder: Path) -> None:
    done = as_nobody(python, str(HARNESS), "no-lab", str(folder / "run"), "--once", folder=folder)
    assert (done.returncode, done.stdout) == (0, "runs 2 False\n"), done.stderr


@pytest.mark.parametrize("lab", ["lab", "no-lab"])
def test_nobody_taps_the_files_of_members(python: str, folder: Path, lab: str) -> None:
    if lab == "lab":
        need_user_namespaces()
    done = as_nobody(python, str(TAPPED), lab, str(folder / "run"), folder=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["ENOSPC for the 2nd mkdir of one/b", "a saw: made 28 made", "hits 1 of 3"]


def test_closed_user_namespaces_are_told_with_the_way_round(tmp_path: Path) -> None:
    need_user_namespaces()  # the test itself enters one, to close it
    command = [sys.executable, "-c", CLOSED, str(HARNESS), "lab", str(tmp_path / "run"), "--once"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30)
    assert done.returncode != 0
    message = done.stderr.strip().splitlines()[-1]
    assert "TargetError: the lab cannot be built: user namespaces are closed" in message
    assert "/proc/sys/user/max_user_namespaces is 0" in message
    assert "--no-lab" in message


def test_without_user_namespaces_members_still_run(tmp_path: Path) -> None:
    need_user_namespaces()  # the test itself enters one, to close it
    command = [sys.executable, "-c", CLOSED, str(HARNESS), "no-lab", str(tmp_path / "run"), "--once"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout) == (0, "runs 2 False\n"), done.stderr
