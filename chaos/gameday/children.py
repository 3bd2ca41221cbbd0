"""Experiments as processes that outlive the game day: started once, found again after a restart, ended by a signal."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import anyio
from anyio import to_thread

from chaos.gameday import begin

MARKER, HELD, SAID = "started", "held", "output.log"  # in the folder of an attempt


class Child(Protocol):
    """A started experiment."""

    @property
    def pid(self) -> int: ...

    @property
    def ours(self) -> bool:
        """Whether this process started it, and so learns its exit code."""

    def terminate(self) -> None:
        """Ask it to heal and end; harmless when it has ended."""

    async def wait(self) -> int | None:
        """Until it has ended: its exit code, None where somebody else had started it."""


class Processes:
    """Starts and finds experiments. `command(attempt's folder, …)` is up to the caller; `held` are file descriptors
    that every child keeps open, such as the locks of its targets."""

    def __init__(self, held: Sequence[int] = ()) -> None:
        self._held = held

    def start(self, folder: Path, command: Sequence[str], record: Callable[[int, str], None]) -> Child:
        """Start it; `record` writes down durably who it is (pid, birth) before it does anything."""
        folder.mkdir(parents=True, exist_ok=True)
        theirs, ours = os.pipe2(os.O_CLOEXEC)
        lock = os.open(folder / HELD, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        open_files = [theirs, lock, ours]
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # from now on the child's, for as long as it lives
            with (folder / SAID).open("ab") as said:
                process = subprocess.Popen(
                    [sys.executable, "-I", "-S", begin.__file__, str(theirs), str(folder / MARKER), *command],
                    pass_fds=[theirs, lock, *self._held], start_new_session=True,
                    stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT,
                )  # fmt: skip
            try:
                record(process.pid, born(process.pid))
            except BaseException:  # it is not on record, so it must not run: it hears no word, and goes
                os.close(open_files.pop())
                process.wait()
                raise
            os.write(ours, begin.GO)
        finally:
            for file in open_files:
                os.close(file)
        return _Own(process)

    async def find(self, folder: Path, pid: int | None, birth: str) -> Child | None:
        """The child if it lives. None: it has ended, or never began (`began` tells which), and will not begin."""
        if pid is not None:
            found = _Found.of(pid, birth)
            if found is not None:
                return found
        # Killed before the pid was on record: the child reads the end of its pipe and goes, within milliseconds.
        await to_thread.run_sync(_await_free, folder / HELD)
        return None

    def began(self, folder: Path) -> bool:
        """Whether the experiment itself was ever started there."""
        return (folder / MARKER).exists()


class _Own:
    """A child of this process."""

    ours = True

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._file = os.pidfd_open(process.pid)

    @property
    def pid(self) -> int:
        return self._process.pid

    def terminate(self) -> None:
        _terminate(self._file)

    async def wait(self) -> int | None:
        await anyio.wait_readable(self._file)
        os.close(self._file)
        code = self._process.wait()
        return 128 - code if code < 0 else code


class _Found:
    """A child of a game day that has gone."""

    ours = False

    def __init__(self, pid: int, file: int) -> None:
        self.pid = pid
        self._file = file

    @classmethod
    def of(cls, pid: int, birth: str) -> _Found | None:
        """By its number and birth; None when it has ended: the number may be another's by now."""
        try:
            file = os.pidfd_open(pid)
        except OSError:
            return None
        if not lives(pid, birth):
            os.close(file)
            return None
        return cls(pid, file)

    def terminate(self) -> None:
        _terminate(self._file)

    async def wait(self) -> int | None:
        await anyio.wait_readable(self._file)
        os.close(self._file)
        return None


def born(pid: int) -> str:
    """When a process was born, by boot and tick: with its number it names one process for all times; empty where there
    is none."""
    try:
        ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
        return f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()}:{ticks}"
    except OSError:
        return ""


def lives(pid: int, birth: str) -> bool:
    """Whether that very process is there, and no mere entry that nobody has reaped."""
    with suppress(OSError, IndexError):
        return born(pid) == birth and Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def _terminate(file: int) -> None:
    with suppress(ProcessLookupError, OSError):
        signal.pidfd_send_signal(file, signal.SIGTERM)


def _await_free(path: Path) -> None:
    """Until nobody holds that lock."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
    finally:
        os.close(file)
