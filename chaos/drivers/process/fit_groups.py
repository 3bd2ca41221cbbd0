"""The lab's part of control groups: a member enters its own, and groups are removed whatever becomes of the harness."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

BURIES_WITHIN = 10.0  # seconds for the last process of a group to end
PAUSE = 0.01  # between two looks; nobody tells when a group is empty


def dress(options: dict[str, Any], fds: list[int]) -> None:
    """In the member: enter a group in each hierarchy, before the program is there and forks."""
    for fd in fds:
        os.write(fd, b"0")


def prepare(options: dict[str, Any]) -> Callable[[], None]:
    """Outside of the lab, with the harness's rights: a process that outlives both, thaws what is frozen, since no
    signal ends that, and removes the groups. What is returned has it done, and waits for it."""
    told, tell = os.pipe()
    parent = os.getpid()
    undertaker = os.fork()
    if undertaker == 0:
        try:
            _wait_for_the_end(told, (options["harness"], parent))
            bury(options["folders"])
        finally:
            os._exit(0)
    os.close(told)

    def end() -> None:
        os.write(tell, b"!")
        os.waitpid(undertaker, 0)

    return end


def _wait_for_the_end(told: int, pids: Iterable[int]) -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nothing, fd)
    os.dup2(told, 3)
    os.closerange(4, 1 << 16)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    poll = select.poll()
    poll.register(3, select.POLLIN)
    for pid in pids:
        try:
            poll.register(os.pidfd_open(pid), select.POLLIN)
        except ProcessLookupError:
            return
    poll.poll()


def release(options: dict[str, Any]) -> None:
    """Without a lab, before the members are ended: nothing frozen."""
    thaw(options["folders"])


def settle(options: dict[str, Any]) -> None:
    """Without a lab, once they have ended."""
    bury(options["folders"])


def thaw(folders: Iterable[str]) -> None:
    """Whatever is frozen in these folders of groups, runs."""
    for folder in folders:
        for group, _, _ in os.walk(folder):
            for name, value in (("freezer.state", "THAWED"), ("cgroup.freeze", "0")):
                with suppress(OSError), open(f"{group}/{name}", "r+") as file:
                    file.write(value)


def bury(folders: Iterable[str]) -> bool:
    """Remove these folders with all groups in them as soon as they are empty; whether nothing is left."""
    deadline = time.monotonic() + BURIES_WITHIN
    thaw(folders)
    while not _removed(folders):
        if time.monotonic() > deadline:
            return False
        time.sleep(PAUSE)
    return True


def _removed(folders: Iterable[str]) -> bool:
    for folder in folders:
        for group, _, _ in os.walk(folder, topdown=False):
            with suppress(OSError):
                os.rmdir(group)
    return not any(os.path.exists(folder) for folder in folders)
