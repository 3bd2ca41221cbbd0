"""Processes seen from outside: what they took, and what /proc says of them while they live."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

TICK = os.sysconf("SC_CLK_TCK")
SAID = "said"  # the file in a process's folder that holds all that it said


class BenchError(Exception):
    """Something that cannot be measured here, and why."""


class Spent(NamedTuple):
    """One process from start to end; `cpu` includes the children it waited for."""

    seconds: float
    cpu: float
    code: int
    peak: float = 0.0  # MiB, resident; of the largest process where it waited for others


def environment() -> dict[str, str]:
    """That of this process, but byte code may be cached, as on a user's machine; ours is no worse off than the peer."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def timed(
    command: Sequence[str],
    *,
    folder: Path,
    codes: Sequence[int] = (0,),
    within: float = 20,
    env: dict[str, str] | None = None,
) -> Spent:
    """Run a command to its end. Raises BenchError with its last words when the exit code is none of `codes`."""
    with open(folder / SAID, "w+b") as said:
        full = environment() | (env or {})
        began = time.perf_counter()
        process = subprocess.Popen(command, cwd=folder, env=full, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
        if not ended(process.pid, within):
            process.kill()
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - began
        process.returncode = code = os.waitstatus_to_exitcode(status)
        said.seek(0)
        if code not in codes:
            raise BenchError(f"{' '.join(command[:3])} … exits with {code}: {_last_words(said.read())}")
    return Spent(seconds, usage.ru_utime + usage.ru_stime, code, usage.ru_maxrss / 1024)


def ended(pid: int, within: float) -> bool:
    """Wait until a child has ended, without taking its exit status; False when it has not by then."""
    descriptor = os.pidfd_open(pid)
    try:
        return bool(select.select([descriptor], [], [], within)[0])
    finally:
        os.close(descriptor)


@contextmanager
def started(
    command: Sequence[str], *, folder: Path, env: dict[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A process that lives while the block does; leaving ends it (TERM, then KILL)."""
    with open(folder / SAID, "wb") as said:
        full = environment() | (env or {})
        process = subprocess.Popen(command, cwd=folder, env=full, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    process.kill()
            process.wait()


def said(folder: Path) -> str:
    """The last words of the process that was started in this folder."""
    return _last_words((folder / SAID).read_bytes())


def await_true(condition: Callable[[], bool], what: str, within: float, every: float = 0.02) -> None:
    """Wait for something that only polling can see from outside."""
    deadline = time.monotonic() + within
    while not condition():
        if time.monotonic() > deadline:
            raise BenchError(f"not within {within:g}s: {what}")
        time.sleep(every)


def python(*arguments: str) -> list[str]:
    """A call of this interpreter."""
    return [sys.executable, *arguments]


# --- /proc -----------------------------------------------------------------------------------------------------------


def state(pid: int) -> str:
    """The kernel's state letter, `X` when the process has gone."""
    stat = _stat(pid)
    return stat[0] if stat else "X"


def cpu(pid: int) -> float:
    """Seconds of user and system time of that process alone; 0 when it has gone."""
    stat = _stat(pid)
    return (int(stat[11]) + int(stat[12])) / TICK if stat else 0.0


def memory(pid: int, field: str = "VmRSS") -> float:
    """MiB by /proc/PID/status: `VmRSS` now, `VmHWM` the peak; 0 when it has gone."""
    return _kib(Path(f"/proc/{pid}/status"), field) / 1024


def pss(pids: Sequence[int]) -> float:
    """MiB that these processes occupy together, each shared page counted once among those who share it."""
    return sum(_kib(Path(f"/proc/{pid}/smaps_rollup"), "Pss") for pid in pids) / 1024


def children(pid: int) -> list[int]:
    """Direct children."""
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        return [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except OSError:
        return []


def descendants(pid: int) -> list[int]:
    """Children, their children, and so on."""
    below = children(pid)
    return below + [d for child in below for d in descendants(child)]


def command_line(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")[:-1]
    except OSError:
        return []


def _stat(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _kib(file: Path, field: str) -> int:
    try:
        for line in file.read_text().splitlines():
            if line.startswith(f"{field}:"):
                return int(line.split()[1])
    except OSError:
        pass
    return 0


def _last_words(text: bytes) -> str:
    return " / ".join(text.decode(errors="replace").strip().splitlines()[-3:])[-500:] or "(it said nothing)"
