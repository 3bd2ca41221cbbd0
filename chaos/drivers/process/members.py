"""Processes that are members: who is alive, what state they are in, signals that never hit another process."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import struct
from contextlib import suppress
from itertools import count
from pathlib import Path

import anyio

from chaos.api import JSON, Member
from chaos.drivers.process.supervisor import Started
from chaos.errors import NotLanded, Unsupported

QUICK_LOOKS = 20  # at a state that should change at once, before a timer is set: the finest one is ten times coarser
PIDFD_INFO_EXIT = 1 << 3  # since Linux 6.15
PIDFD_GET_INFO = 3 << 30 | 64 << 16 | 0xFF << 8 | 11  # a struct of 64 bytes: the mask first, the exit code last


class Live:
    """A process that is, or was just now, a member."""

    def __init__(self, member: Member, pidfd: int, started: Started | None = None) -> None:
        self.member = member
        self.pidfd = pidfd
        self.started = started  # by the driver; None for those that others started
        self.program = member.name  # as it was started, whatever it calls itself later
        self.said: JSON | None = None  # what its hello told

    def alive(self) -> bool:
        """Whether it has not ended, asked of the kernel."""
        poll = select.poll()
        poll.register(self.pidfd, select.POLLIN)
        return not poll.poll(0)

    def signal(self, number: int) -> bool:
        """Whether there was somebody to signal."""
        try:
            signal.pidfd_send_signal(self.pidfd, number)
        except ProcessLookupError:
            return False
        return True


class Processes:
    """Implements Signals over the processes in `live`."""

    def __init__(self) -> None:
        self.live: dict[int, Live] = {}  # by process id as the harness sees it; the newest of a name comes last

    def members(self) -> tuple[Member, ...]:
        newest = {live.member.name: live for live in self.live.values()}
        return tuple(live.member for live in newest.values() if live.alive())

    async def signal(self, member: Member, signum: int) -> None:
        live = self.live.get(member.pid)
        try:
            # One that has ended takes signals until its parent has looked; none of them ended it.
            if live is None or not live.alive() or not live.signal(signum):
                raise NotLanded(f"{member.name} (process {member.pid}) has already gone")
        except PermissionError as error:
            raise Unsupported(f"no right to signal {member.name} (process {member.pid}): {error}") from error

    def state(self, member: Member) -> str:
        """`T` only when all threads have stopped; else the letter of a thread that has not."""
        live = self.live.get(member.pid)
        if live is None:
            return "X"
        letters = thread_states(member.pid)
        if not letters or not live.signal(0):  # a letter may be that of another process with the same id
            return "X"
        if letters[0] != "T":
            return letters[0]
        return next((letter for letter in letters if letter not in "TtXZ"), "T")

    async def wait_state(self, member: Member, states: str, timeout: float) -> str:
        live = self.live.get(member.pid)
        with anyio.move_on_after(timeout):
            if live is not None and set(states) <= {"X", "Z"}:
                await _ended(live.pidfd)
            for look in count():  # the kernel tells nobody but the parent of a stop
                if (state := self.state(member)) in states:
                    return state
                await anyio.sleep(0 if look < QUICK_LOOKS else 0.001 if look < 2 * QUICK_LOOKS else 0.01)
        raise NotLanded(f"{member.name} is in state {self.state(member)} and not in {states} after {timeout:g} s")

    def signal_all(self, number: int, *, started_only: bool = False) -> None:
        """To everyone alive, or to those that the driver started."""
        for live in tuple(self.live.values()):
            if live.started or not started_only:
                live.signal(number)


async def _ended(pidfd: int) -> None:
    """Wait for the end through a descriptor of our own: two tasks cannot wait for the same one."""
    own = os.dup(pidfd)
    try:
        await anyio.wait_readable(own)
    finally:
        os.close(own)


def facts(member: Member) -> JSON:
    """A member as events tell of it."""
    return {
        "member": member.name, "role": member.role, "node": member.node, "rank": member.rank, "pid": member.pid,
    }  # fmt: skip


def pid_of(pidfd: int) -> int:
    """The process id, as we see it, that a file descriptor from the lab means; -1 when that one was reaped."""
    text = Path(f"/proc/self/fdinfo/{pidfd}").read_text()
    return int(text.partition("Pid:")[2].split()[0])


def own_pid(pid: int) -> int | None:
    """The id by which a process knows itself, in its own namespace."""
    try:
        return int(Path(f"/proc/{pid}/status").read_text().partition("NSpid:")[2].split("\n")[0].split()[-1])
    except (OSError, IndexError):
        return None


def exit_code(pidfd: int) -> int | None:
    """How a process ended that is nobody's child of ours; None before its parent has looked, or on an old kernel."""
    info = bytearray(struct.pack("Q56x", PIDFD_INFO_EXIT))
    try:
        fcntl.ioctl(pidfd, PIDFD_GET_INFO, info)
    except OSError:
        return None
    mask, status = struct.unpack("Q52xi", info)
    return os.waitstatus_to_exitcode(status) if mask & PIDFD_INFO_EXIT else None


def thread_states(pid: int) -> str:
    """The state letters of a process and then of its threads; empty once it has gone."""
    letters = ""
    with suppress(OSError):
        letters += _letter(f"/proc/{pid}/stat")
        for thread in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError):
                letters += _letter(f"/proc/{pid}/task/{thread}/stat")
    return letters


def _letter(path: str) -> str:
    with open(path) as file:
        return file.read().rpartition(")")[2].split()[0]
