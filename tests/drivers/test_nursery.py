"""Members that are forked from one process, which has imported what they share."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from chaos.api import JSON, Launch, Links, Member, Programs, Signals
from chaos.drivers.process import Process
from chaos.drivers.process.spec import decode
from chaos.errors import NotLanded, SpecError, TargetError
from chaos.testing import Recorder

pytestmark = pytest.mark.anyio

PROGRAM = """
import os, signal, sys
sys.path.append(os.environ["CHAOS_SOURCE"])
import heavy
from chaos.inside import emit, hello

def name(number):
    handler = signal.getsignal(number)
    return getattr(handler, "name", None) or handler.__name__

print("said on stdout")
print("said on stderr", file=sys.stderr)
hello(sys.argv[1], role="program")
emit(
    "it.runs", imported_by=heavy.PID, pid=os.getpid(), ppid=os.getppid(), name=__name__, cwd=os.getcwd(),
    argv=sys.argv[1:], host=os.uname().nodename, node=os.environ["CHAOS_NODE"], first=sys.path[0],
    signals=[name(n) for n in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM)],
)
if sys.argv[2:] == ["leave"]:
    sys.exit(7)
signal.pause()
"""


@pytest.fixture
def workdir(tmp_path: Path) -> Path:
    """A folder with a program and a module that remembers who imported it."""
    (tmp_path / "heavy.py").write_text("import os\nPID = os.getpid()\n")
    (tmp_path / "broken.py").write_text("raise RuntimeError('no such device')\n")
    (tmp_path / "program.py").write_text(PROGRAM)
    return tmp_path


def launch(workdir: Path, *members: JSON, lab: bool = True) -> Launch:
    nodes = [{"name": f"n-{m['name']}"} for m in members]
    env = {"CHAOS_SOURCE": str(Path(__file__).parents[2])}
    spec: JSON = {"members": list(members), "nodes": nodes, "env": env, "stop-grace": "100ms"}
    return Launch(spec=spec, settings={}, folder=workdir / "run", base=workdir, points=(), lab=lab)


def member(name: str, *words: str, **more: Any) -> JSON:
    command = ["python", "-m", "program", name, *words]
    return {"name": name, "role": "program", "node": f"n-{name}", "command": command, "preload": ["heavy"], **more}


def exists(one: Member) -> bool:
    return Path(f"/proc/{one.pid}").exists()


@pytest.mark.parametrize("lab", [True, False], ids=["lab", "no-lab"])
async def test_what_members_share_is_imported_once_and_else_they_are_their_own(workdir: Path, lab: bool) -> None:
    stage = Recorder()
    async with Process().open(launch(workdir, member("a"), member("b", "word"), lab=lab), stage) as target:
        a, b = await stage.until("it.runs", "a"), await stage.until("it.runs", "b")
        assert a.data["imported_by"] == b.data["imported_by"] not in (a.data["pid"], b.data["pid"])
        assert a.data["ppid"] == b.data["ppid"]  # the process that reaps and ends them
        assert (a.data["name"], a.data["cwd"], a.data["first"]) == ("__main__", str(workdir), str(workdir))
        assert (a.data["argv"], b.data["argv"]) == (["a"], ["b", "word"])
        handlers = (signal.SIG_IGN, signal.SIG_IGN, signal.default_int_handler, signal.SIG_DFL)
        names = [handler.name if isinstance(handler, signal.Handlers) else handler.__name__ for handler in handlers]
        assert a.data["signals"] == names, "as an interpreter has them"
        assert (a.data["node"], b.data["node"]) == ("n-a", "n-b")
        if lab:
            assert (a.data["host"], b.data["host"]) == ("n-a", "n-b")
            assert isinstance(target, Links)
        assert isinstance(target, Signals)
        victim, other = target.members()
        assert {victim.name, other.name} == {"a", "b"}
        await target.signal(victim, signal.SIGKILL)
        exited = await stage.until("member.exited", victim.name)
        assert exited.data["code"] == -signal.SIGKILL
        assert target.members() == (other,)
    assert not exists(other)
    log = (workdir / "run" / "logs" / "a.log").read_text()
    assert "said on stdout" in log
    assert "said on stderr" in log


async def test_an_exit_code_is_that_of_the_program(workdir: Path) -> None:
    stage = Recorder()
    async with Process().open(launch(workdir, member("a", "leave")), stage):
        exited = await stage.until("member.exited", "a")
        assert exited.data["code"] == 7


async def test_a_member_starts_again_from_what_was_imported(workdir: Path) -> None:
    stage = Recorder()
    async with Process().open(launch(workdir, member("a")), stage) as target:
        first = await stage.until("it.runs", "a")
        assert isinstance(target, Programs)
        assert isinstance(target, Signals)
        assert target.programs() == target.programs("n-a") == ("a",)
        assert target.programs("n-b") == ()
        with pytest.raises(NotLanded, match="has not ended"):
            await target.start_again("a")
        with pytest.raises(NotLanded, match="did not start b"):
            await target.start_again("b")
        await target.signal(target.members()[0], signal.SIGKILL)
        await stage.until("member.exited", "a")
        again = await target.start_again("a")
        second = await stage.until("it.runs", "a", times=2)
        assert target.members() == (again,)
        assert second.data["imported_by"] == first.data["imported_by"]
        assert second.data["pid"] != first.data["pid"]


async def test_what_cannot_be_imported_is_told(workdir: Path) -> None:
    async with Process().open(launch(workdir, member("a", preload=["broken"])), Recorder()) as target:
        with pytest.raises(TargetError, match="RuntimeError: no such device"):
            await target.wait_ready()


async def test_a_library_that_must_come_first_is_executed(workdir: Path) -> None:
    stage = Recorder()
    async with Process().open(launch(workdir, member("a", env={"LD_PRELOAD": ""})), stage):
        event = await stage.until("it.runs", "a")
        assert event.data["imported_by"] == event.data["pid"]


async def test_a_harness_that_stops_during_an_import_waits_for_nothing(workdir: Path) -> None:
    (workdir / "heavy.py").write_text("import signal\nsignal.pause()\n")
    began = anyio.current_time()
    async with Process().open(launch(workdir, member("a")), Recorder()):
        await anyio.lowlevel.checkpoint()
    assert anyio.current_time() - began < 4.0  # the limit after which the lab is killed is 5


def test_preload_goes_with_modules_only() -> None:
    spec = decode({"members": [{"name": "a", "role": "r", "command": ["sh"], "preload": ["torch"]}]})
    with pytest.raises(SpecError, match="python -m MODULE"):
        spec.programs({"data": os.devnull})
