"""Disks that lose power: what was not synced is gone, by the file system's own shutdown or by replay."""

from __future__ import annotations

import functools
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from chaos.api import JSON, Stage
from chaos.drivers.process.fittings.base import Face, Fitting
from chaos.drivers.process.fittings.losses import losses
from chaos.drivers.process.fittings.replay import MODEL, Shadow
from chaos.drivers.process.fittings.tap.observer import Observer
from chaos.drivers.process.recipe import Recipe
from chaos.drivers.process.supervisor import Supervisor
from chaos.errors import NotLanded, Unsupported
from chaos.storage import Disks

SIZE = 256 << 20  # of an image: sparse, and more than a short run writes
CAP_SYS_ADMIN = 21
ASKED = "asked for"
IMAGES = "disks"  # in the run's folder
PROGRAM = Path(__file__).parents[1] / "fit_disk.py"
LIMIT = 20.0  # seconds for one request; a power cut takes some ten milliseconds


class DiskFace(Face):
    """Implements Disks, and Files where the disk is one of our own."""

    def data_root(self) -> Path:
        return self.fitting(Disk).root()

    async def lose_unsynced(self, path: str) -> JSON:
        lost: JSON = {}
        with anyio.CancelScope(shield=True):  # half a power cut would be none, and the request has its own limit
            lost |= await self.fitting(Disk).cut(path)
        return lost


class Disk(Fitting):
    """For each folder that a fault of the run wants to lose: an ext4 image, or the record of what is durable there."""

    name = "disk"
    capability = Disks
    face = DiskFace

    def __init__(self, recipe: Recipe, stage: Stage) -> None:
        super().__init__(recipe, stage)
        self._folders = {path: recipe.data / path for path in sorted(disks_of(recipe.launch.faults))}
        self._keeper: Keeper | None = None
        asked = {getattr(fault, "mechanism", "best") for fault in recipe.launch.faults}
        self._must = "fsshutdown" in asked
        self._refused = ASKED if "replay" in asked else missing(recipe.launch.lab) or attempt()
        self._shadow = Shadow(recipe.folder / IMAGES) if self._refused else None

    def observers(self) -> tuple[Observer, ...]:
        return (self._shadow,) if self._shadow is not None and not self._must else ()

    async def set_up(self, supervisor: Supervisor, tasks: TaskGroup) -> str:
        if self._must and self._refused:
            if self._refused == ASKED:
                raise Unsupported("one fault asks for fsshutdown and another for replay: a run has one `mechanism`")
            raise Unsupported(f"{self._refused}; `mechanism: replay` does without")
        for folder in self._folders.values():
            folder.mkdir(parents=True, exist_ok=True)
        where = ", ".join(self._folders)
        if self._shadow is not None:
            for folder in self._folders.values():
                self._shadow.keep(folder)
            return f"replay: {MODEL}, at {where}; {self._refused}"
        self._keeper = Keeper.start(supervisor.first())
        try:
            await self._keeper.answer()
            await self._attach(self._keeper)
        except NotLanded as error:
            raise Unsupported(f"fsshutdown: {error}") from error
        return f"fsshutdown: ext4 on a loop image, at {where}"

    async def _attach(self, keeper: Keeper) -> None:
        images = self.recipe.folder / IMAGES
        images.mkdir(exist_ok=True)
        for number, folder in enumerate(self._folders.values()):
            image = images / f"{number}.ext4"
            with image.open("xb") as file:
                file.truncate(SIZE)
            await keeper.ask({"op": "attach", "image": str(image), "folder": str(folder)})

    def root(self) -> Path:
        """The target's data, as those see it who are in the lab."""
        return self.recipe.data if self._keeper is None else self._keeper.see(self.recipe.data)

    async def cut(self, path: str) -> JSON:
        folder = self._folders[disk_path(path)]
        if self._shadow is not None:
            return {"disk": path, **await anyio.to_thread.run_sync(self._shadow.cut, folder)}
        assert self._keeper is not None
        said = await self._keeper.ask({"op": "cut", "folder": str(folder)})
        facts = {"disk": path, "mechanism": "fsshutdown", "file_system": "ext4", "seconds": said["seconds"]}
        return {**facts, **said["proof"], **losses(said["before"], said["after"])}

    async def tear_down(self) -> None:
        if self._keeper is not None:
            await self._keeper.end()


class Keeper:
    """`fit_disk.py`, running with our rights in the lab's mount namespace."""

    def __init__(self, program: subprocess.Popen[bytes], control: socket.socket) -> None:
        self._program, self._control = program, control
        self._turn = anyio.Lock()

    @classmethod
    def start(cls, lab: int) -> Keeper:
        """Straight from this thread: the kernel ends it with the thread that made it."""
        control, other = socket.socketpair()
        words = [str(other.fileno()), str(os.getpid()), str(lab)]
        command = [sys.executable, "-I", "-S", "-X", "utf8", str(PROGRAM), *words]
        with other:
            process = subprocess.Popen(
                command, pass_fds=[other.fileno()], start_new_session=True, stdin=subprocess.DEVNULL
            )
        control.setblocking(False)
        return cls(process, control)

    def see(self, path: Path) -> Path:
        """The same path, as the lab sees it, for us."""
        return Path(f"/proc/{self._program.pid}/root{path}")

    async def ask(self, request: JSON) -> JSON:
        async with self._turn:
            try:
                self._control.send(json.dumps(request).encode())
            except OSError as error:
                raise NotLanded(f"the keeper of the disks has gone: {error}") from error
            return await self.answer()

    async def answer(self) -> JSON:
        said = b""
        with anyio.move_on_after(LIMIT):
            while not said.endswith(b"\n"):
                await anyio.wait_readable(self._control)
                if not (part := self._control.recv(1 << 16)):
                    break
                said += part
        reply: JSON = json.loads(said) if said.endswith(b"\n") else {"error": "the keeper of the disks has gone"}
        if "error" in reply:
            raise NotLanded(f"the disk does not lose power: {reply['error']}")
        return reply

    async def end(self) -> None:
        """Its mounts went with the lab, or go with it now."""
        self._control.close()
        pidfd = os.pidfd_open(self._program.pid)
        try:
            with anyio.move_on_after(LIMIT) as limit:
                await anyio.wait_readable(pidfd)
            if limit.cancelled_caught:
                self._program.kill()
        finally:
            os.close(pidfd)
        self._program.wait()


def missing(lab: bool) -> str:
    """What a power cut by the file system's own shutdown needs and is not here; empty when it can be tried."""
    if not lab:
        return "fsshutdown needs the lab (without --no-lab)"
    status = Path("/proc/self/status").read_text().partition("CapEff:")[2].split()[0]
    if not int(status, 16) >> CAP_SYS_ADMIN & 1:
        return "fsshutdown needs root (CAP_SYS_ADMIN)"
    if not os.access("/dev/loop-control", os.R_OK | os.W_OK):
        return "fsshutdown needs /dev/loop-control (modprobe loop; in a container: --privileged)"
    if shutil.which("mkfs.ext4", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") is None:
        return "fsshutdown needs mkfs.ext4 (apt-get install e2fsprogs)"
    return ""


@functools.cache
def attempt() -> str:
    """Why this machine cannot do it although it looks so, as in a container; really tried, once."""
    command = [sys.executable, "-I", "-S", str(PROGRAM), "--try", tempfile.gettempdir()]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["fsshutdown failed"])[-1]


def disk_path(path: str) -> str:
    return str(PurePosixPath(path))


def disks_of(faults: Iterable[object]) -> set[str]:
    """The folders below the data that faults want to lose."""
    paths = (getattr(fault, "disk", None) for fault in faults)
    return {disk_path(path) for path in paths if isinstance(path, str)}
