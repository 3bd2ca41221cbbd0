"""Members that see their data through a file system of the harness, each through its own."""

from __future__ import annotations

import ctypes.util
import importlib.util
import itertools
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import msgspec
from anyio.abc import TaskGroup

from chaos.api import JSON, Fault, Member, capability_of
from chaos.drivers.process.fittings.base import Face, Fitting
from chaos.drivers.process.spec import Program
from chaos.drivers.process.supervisor import Supervisor
from chaos.errors import HealFailed, NotLanded, Unsupported
from chaos.selection import select
from chaos.storage import Lie, Views
from chaos.trigger import regex

ANSWER = 5.0  # seconds for an order
LOG = "fuse.log"  # in the run's folder: what libfuse has to say


class FuseFace(Face):
    """Implements Views."""

    async def lie(self, lie: Lie, members: Sequence[Member]) -> Standing:
        return await self.fitting(Fuse).stand(lie, members)


class Fuse(Fitting):
    """A FUSE server for each program whose node or name a fault selects."""

    name = "fuse"
    capability = Views
    face = FuseFace

    async def set_up(self, supervisor: Supervisor, tasks: TaskGroup) -> str:
        if reason := missing(self.recipe.launch.lab):
            raise Unsupported(reason)
        self._tasks = tasks
        self._base = f"/proc/{supervisor.first()}/root{self.recipe.data}"
        self._views: dict[str, View] = {}  # by program; the newest
        self._standing: dict[int, Standing] = {}
        self._numbers = itertools.count(1)
        self._fitted = self._chosen()
        self._threads = 8 if any(_waits(f) for f in self.recipe.launch.faults) else 1
        return f"fuse: libfuse 3 by mfusepy, for {', '.join(sorted(self._fitted))}"

    def _chosen(self) -> set[str]:
        """The programs that a fault with lies may hit; where it may hit what they start, all on that node."""
        slots = self.recipe.spec.slots()
        everyone = [Member(name=s.name, role=s.role, pid=0, node=s.node, rank=s.rank) for s in slots]
        faults = [f for f in self.recipe.launch.faults if _lies(f)]
        names = {m.name for f in faults for s in select(f.selectors(), slots, everyone) for m in s.members}
        programs = self.recipe.programs
        started = names - {p.name for p in programs}
        nodes = {slot.node for slot in slots if slot.name in started}
        return {p.name for p in programs if p.name in names or p.node in nodes}

    def dress(self, program: Program) -> tuple[JSON, Sequence[int]] | None:
        if program.name not in self._fitted:
            return None
        old = self._views.get(program.name)
        if old is not None:
            old.leave()
        standing = [s.order for s in self._standing.values() if program.name in s.programs]
        view = self._views[program.name] = View.start(
            program.name, self._base, self.recipe.folder / LOG, standing, self._threads
        )
        self._tasks.start_soon(view.listen, self._said)
        return {"folder": str(self.recipe.data)}, [view.member.fileno()]

    async def started(self, program: Program, pid: int) -> None:
        view = self._views.get(program.name)
        if view is not None:
            view.member.close()
            view.pid = pid
            with suppress(OSError):
                view.namespace = os.stat(f"/proc/{pid}/ns/mnt").st_ino
                view.mounted = mounted(pid, self.recipe.data)

    def _said(self, message: JSON) -> None:
        if standing := self._standing.get(message.get("hit", 0)):
            standing.struck({k: v for k, v in message.items() if k != "hit"})

    async def stand(self, lie: Lie, members: Sequence[Member]) -> Standing:
        """Have the views of these members tell it."""
        views = {view.program: view for view in (self._view_of(m) for m in members)}
        number = next(self._numbers)
        settings = {k: v for k, v in msgspec.to_builtins(lie).items() if k != "path"}
        order = {"op": "stand", "number": number, "pattern": regex(lie.path), **settings}
        standing = self._standing[number] = Standing(self, order, tuple(views))
        try:
            for view in views.values():
                await view.ask(order)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await standing.lift()
            raise
        return standing

    def _view_of(self, member: Member) -> View:
        with suppress(OSError):
            namespace = os.stat(f"/proc/{member.pid}/ns/mnt").st_ino
            for view in self._views.values():
                if view.namespace == namespace and view.mounted:
                    return view
        raise NotLanded(f"{member.name} sees the bare folder, and not the file system of the harness")

    async def lift(self, standing: Standing) -> list[JSON]:
        """Tell the truth again; HealFailed where somebody still looks through one that does not answer."""
        self._standing.pop(standing.order["number"], None)
        said, mute = [], []
        for program in standing.programs:
            view = self._views[program]
            try:
                said.append({"program": program, **await view.ask({"op": "lift", "number": standing.order["number"]})})
            except NotLanded:
                said.append({"program": program, "ended": "with its program"})
                if view.watched():
                    mute.append(program)
        if mute:
            raise HealFailed(
                f"the file system of {', '.join(mute)} does not answer, and its program lives",
                undo="end the target: the file system ends with its program",
            )
        return said

    async def tear_down(self) -> None:
        for view in getattr(self, "_views", {}).values():
            await view.end()


class Standing:
    """Implements Told: a lie that some views tell."""

    def __init__(self, fuse: Fuse, order: JSON, programs: tuple[str, ...]) -> None:
        self.order, self.programs = order, programs
        self._fuse = fuse
        self._struck = anyio.Event()
        self._first: JSON = {}
        self._lifted: JSON = {}

    def struck(self, what: JSON) -> None:
        self._first = self._first or what
        self._struck.set()

    async def hit(self, before: Callable[[], None]) -> JSON:
        await self._struck.wait()
        before()
        return {"mechanism": "fuse", "file_system": "fuse.chaos", "programs": list(self.programs), **self._first}

    async def lift(self) -> JSON:
        if not self._lifted:
            self._lifted = {"views": await self._fuse.lift(self)}
        return self._lifted


class View:
    """Our ends of one server: for control, and the one that the member sends its file system through."""

    def __init__(self, program: str, process: subprocess.Popen[bytes], control: socket.socket, member: socket.socket):
        self.program, self.member = program, member
        self.namespace, self.mounted, self.pid = 0, False, 0
        self._process, self._control = process, control
        self._answers: dict[int, JSON] = {}
        self._news = anyio.Event()
        self._gone = False

    @classmethod
    def start(cls, program: str, base: str, log: Path, standing: Sequence[JSON], threads: int) -> View:
        """Straight from this thread: the kernel ends it with the thread that made it."""
        control, theirs = socket.socketpair()
        member, other = socket.socketpair()
        path = Path(__file__).parents[1] / "fuse_server.py"
        command = [
            sys.executable, "-I", "-S", "-X", "utf8", str(path), str(theirs.fileno()), str(other.fileno()),
            str(os.getpid()), base, _packages(), json.dumps([{**order, "silent": True} for order in standing]),
            str(threads),
        ]  # fmt: skip
        with theirs, other, log.open("ab") as said:
            process = subprocess.Popen(
                command, pass_fds=[theirs.fileno(), other.fileno()], start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=said, stderr=said,
            )  # fmt: skip
        control.setblocking(False)
        return cls(program, process, control, member)

    async def listen(self, said: Callable[[JSON], None]) -> None:
        """Until the server has ended."""
        rest = b""
        try:
            while not self._gone:
                await anyio.wait_readable(self._control)
                part = self._control.recv(1 << 16)
                *lines, rest = (rest + part).split(b"\n")
                for message in map(json.loads, lines):
                    if "answer" in message:
                        self._answers[message.pop("answer")] = message
                    else:
                        said(message)
                self._gone = self._gone or not part
                self._tell()
        except ConnectionError:
            pass
        finally:
            self._gone = True
            self._control.close()
            self._tell()

    def _tell(self) -> None:
        self._news.set()
        self._news = anyio.Event()

    async def ask(self, order: JSON) -> JSON:
        """Give an order and return what was answered; NotLanded when the server has gone."""
        number = order["number"]
        self._answers.pop(number, None)
        with anyio.move_on_after(ANSWER), suppress(OSError):
            self._control.sendall(json.dumps(order).encode() + b"\n")
            while number not in self._answers and not self._gone:
                await self._news.wait()
        if number not in self._answers:
            raise NotLanded(f"the file system of {self.program} does not answer")
        return self._answers.pop(number)

    def watched(self) -> bool:
        """Whether its program lives."""
        with suppress(OSError):
            return os.stat(f"/proc/{self.pid}/ns/mnt").st_ino == self.namespace
        return False

    def leave(self) -> None:
        """Its program has ended, and another one follows."""
        self._gone = True
        with suppress(OSError):
            self._control.shutdown(socket.SHUT_RDWR)
        self._process.kill()
        self._process.wait()

    async def end(self) -> None:
        self.member.close()
        self.leave()


def mounted(pid: int, folder: Path) -> bool:
    """Whether a process sees a file system of ours at the folder."""
    for line in Path(f"/proc/{pid}/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        if before.split()[4] == str(folder) and after.split()[0] == "fuse.chaos":
            return True
    return False


def missing(lab: bool) -> str:
    """What the fault file system needs and is not here; empty when it can be tried."""
    if not lab:
        return "fuse needs the lab (without --no-lab)"
    try:
        os.close(os.open("/dev/fuse", os.O_RDWR))
    except OSError as error:
        return f"fuse needs /dev/fuse ({error.strerror}; root, or in a container: --device /dev/fuse)"
    if importlib.util.find_spec("mfusepy") is None:
        return "fuse needs mfusepy (pip install 'mlchaos[storage]')"
    if ctypes.util.find_library("fuse3") is None:
        return "fuse needs libfuse 3 (apt-get install libfuse3-3)"
    return ""


def _lies(fault: Fault[Any]) -> bool:
    """Whether it needs views."""
    asked = (capability_of(type(fault)), *fault.needs(), *fault.uses())
    return any(Views in need.__mro__ for need in asked if need is not None)


def _waits(fault: Fault[Any]) -> bool:
    """Whether it makes one operation wait, which others must not."""
    return _lies(fault) and hasattr(fault, "rate")


def _packages() -> str:
    found = importlib.util.find_spec("mfusepy")
    assert found is not None
    assert found.origin is not None
    return str(Path(found.origin).parent)
