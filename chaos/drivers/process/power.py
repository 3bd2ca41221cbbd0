"""What ends with a node's power: every process there, whether anybody knows it or not."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path

import anyio

from chaos.errors import NotLanded

GONE_WITHIN = 5.0  # seconds that the kernel may take to end them; some milliseconds on a busy machine
AGAIN = 0.002


class Residents:
    """How the processes of some nodes are told from all others: by the node's network in the lab, by the session of a
    member, by an environment that was inherited from one."""

    def __init__(self, data: Path, nodes: Sequence[str], members: Collection[int]) -> None:
        self._run = b"\0CHAOS_DATA=" + os.fsencode(data) + b"\0"
        self._places = [b"\0CHAOS_NODE=" + os.fsencode(node) + b"\0" for node in nodes]
        self._members = frozenset(members)
        self._networks = {_network(pid) for pid in members} - {None, _network(os.getpid())}

    def look(self) -> dict[int, int]:
        """Those that live now, each with a descriptor that means it and no later one."""
        found: dict[int, int] = {}
        for name in filter(str.isdigit, os.listdir("/proc")):
            with suppress(OSError):
                pidfd = os.pidfd_open(int(name))
                if self._is_one(int(name)):
                    found[int(name)] = pidfd
                else:
                    os.close(pidfd)
        return found

    def _is_one(self, pid: int) -> bool:
        with suppress(OSError):
            state, _, _, session = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:4]
            if state in "ZX":
                return False
            if int(session) in self._members or _network(pid) in self._networks:
                return True
            environment = b"\0" + Path(f"/proc/{pid}/environ").read_bytes()
            return self._run in environment and any(place in environment for place in self._places)
        return False


async def end_residents(residents: Residents) -> set[int]:
    """Kill all of them until a look finds none; who they were."""
    ended: set[int] = set()
    deadline = time.monotonic() + GONE_WITHIN
    while found := residents.look():
        for pid, pidfd in found.items():
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            os.close(pidfd)
            ended.add(pid)
        if time.monotonic() > deadline:
            raise NotLanded(f"processes that do not end: {', '.join(map(str, sorted(found)))}")
        await anyio.sleep(AGAIN)
    return ended


def _network(pid: int) -> int | None:
    try:
        return os.stat(f"/proc/{pid}/ns/net").st_ino
    except OSError:
        return None
