"""What a program that was killed leaves on this machine: processes, namespaces, mounts, links, files.

Whoever calls `stand_apart` becomes the parent of every orphan of what it starts, and stands in a user namespace of its
own, whose counters are those of its descendants alone. So "nothing is left" is the kernel's answer: no child to wait
for, and room for one namespace of a kind where only one may be.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from chaos.drivers.process import cgroups, kernel

KINDS = {
    "net": kernel.CLONE_NEWNET,
    "mnt": kernel.CLONE_NEWNS,
    "pid": kernel.CLONE_NEWPID,
    "ipc": kernel.CLONE_NEWIPC,
    "uts": kernel.CLONE_NEWUTS,
    "user": kernel.CLONE_NEWUSER,
}
SHARED = Path("/dev/shm")
IMAGE = ".ext4"  # the end of the name of a disk's file
PAUSE = 0.01  # between two looks at what nobody tells of


class Place(NamedTuple):
    """The host as far as a run could mark it: compare two to see what was added."""

    mounts: frozenset[str]
    links: frozenset[str]
    files: frozenset[str]
    groups: frozenset[str] = frozenset()
    loops: frozenset[str] = frozenset()

    @classmethod
    def now(cls, *folders: Path) -> Place:
        """Mounts and links of the host, the entries of shared memory and of these folders, the control groups of
        harnesses that have gone, and loop devices with the disks of runs."""
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
        return cls(
            mounts=frozenset(line.split()[4] for line in lines),
            links=frozenset(os.listdir("/sys/class/net")),
            files=frozenset(str(entry) for folder in (*folders, SHARED) for entry in folder.iterdir()),
            groups=frozenset(_groups()),
            loops=frozenset(_loops()),
        )

    def added(self, later: Place) -> list[str]:
        """What is there later and was not now, one line each."""
        return [
            f"{name[:-1]} {thing}"
            for name, before, after in zip(self._fields, self, later, strict=True)
            for thing in sorted(after - before)
        ]


def stand_apart() -> None:
    """Once, in a process with one thread and no children; it gets a /dev/shm of its own, too. Where user namespaces
    are closed there is nothing to count: nobody can make one then."""
    adopt()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(kernel.Refused):
        kernel.enter_user_namespace(kernel.CLONE_NEWNS)
        kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
        kernel.mount("tmpfs", str(SHARED), "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "mode=1777")
        kernel.enter_user_namespace()  # in whose counters that mount namespace is not


def adopt() -> None:
    """The orphans only: whoever calls this keeps all rights, for what needs them (disks, control groups)."""
    kernel.syscall("prctl", kernel.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])


def born() -> None:
    """In a child of such a process, before it executes: it dies with us and heeds all signals."""
    kernel.die_with_parent()
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def await_nothing(within: float) -> list[str]:
    """Reap until there is no descendant and no namespace of one left; else what is there after that many seconds."""
    deadline = time.monotonic() + within
    return await_no_process(deadline) or await_no_namespace(deadline)


def await_no_process(deadline: float) -> list[str]:
    """The descendants that are left at that time of the monotonic clock."""
    while _has_children():
        rest = deadline - time.monotonic()
        if rest <= 0 or signal.sigtimedwait([signal.SIGCHLD], rest) is None:
            return [_describe(pid) for pid in descendants()]
    return []


def await_no_namespace(deadline: float) -> list[str]:
    """The kinds of which one is left at that time."""
    return [f"namespace {kind}" for kind in KINDS if not _await_none(kind, deadline)]


def end_descendants() -> None:
    """Kill and reap all of them, so that the next attempt starts from nothing."""
    while _has_children():
        for pid in descendants():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        signal.sigtimedwait([signal.SIGCHLD], 1.0)


def descendants() -> list[int]:
    """Processes that were started by ours, at whatever depth, zombies too."""
    parents = dict(_parents())
    return [pid for pid in parents if _leads_to(os.getpid(), pid, parents)]


def _groups() -> Iterator[str]:
    own = Path("/proc/self/cgroup").read_text()
    for place in cgroups.places(Path("/proc/self/mountinfo").read_text(), own):
        for folder in (place.folder, *place.folder.parents):
            for group in folder.glob(cgroups.run_name("*")):
                if not Path("/proc", group.name.split("-")[1]).exists():
                    yield str(group)


def _loops() -> Iterator[str]:
    for file in Path("/sys/block").glob("loop*/loop/backing_file"):
        with suppress(OSError):  # it was just freed
            if (image := file.read_text().strip()).endswith(IMAGE):
                yield f"{file.parts[3]} {image}"


def _has_children() -> bool:
    """Whether a child is left after reaping those that have ended. Orphans come to us, so none means no descendant."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _await_none(kind: str, deadline: float) -> bool:
    while _exists(kind):
        if time.monotonic() > deadline:
            return False
        time.sleep(PAUSE)
    return True


def _exists(kind: str) -> bool:
    """Whether a namespace of that kind, made below our user namespace, still lives: then a limit of one is reached;
    else one of our own is made, which ends at once.

    The kernel frees a network with its links some time after its last process; only this tells when it has.
    """
    limit = Path(f"/proc/sys/user/max_{kind}_namespaces")
    before = limit.read_text()
    try:
        limit.write_text("1")
    except OSError:
        return False
    try:
        child = os.fork()
        if child == 0:
            os._exit(ctypes.CDLL(None).unshare(KINDS[kind]) != 0)
        return os.waitpid(child, 0)[1] != 0
    finally:
        limit.write_text(before)


def _parents() -> Iterator[tuple[int, int]]:
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            yield int(name), int(Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[1])


def _leads_to(ancestor: int, pid: int, parents: dict[int, int]) -> bool:
    while (pid := parents.get(pid, 0)) not in (0, ancestor):
        pass
    return pid == ancestor


def _describe(pid: int) -> str:
    with suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return f"process {pid} ({state}) {words[:60].strip()}"
    return f"process {pid}"
