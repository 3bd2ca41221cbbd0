"""Who is connected to a port, as the kernel lists it: the evidence where nobody else keeps a log."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Iterable
from contextlib import suppress

ESTABLISHED = "01"


def connected(pids: Iterable[int], port: int) -> list[str]:
    """The far ends, `address:port`, of the connections that these processes have with that port, in their order."""
    found = []
    for pid in pids:
        with suppress(OSError):  # it has ended
            own = {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
            found += [far for inode, far in _established(pid, port) if f"socket:[{inode}]" in own]
    return found


def _established(pid: int, port: int) -> list[tuple[str, str]]:
    """Of every process in its network: the socket's inode, and the far end."""
    found = []
    for table in ("tcp", "tcp6"):
        with suppress(FileNotFoundError), open(f"/proc/{pid}/net/{table}") as file:
            for line in file.readlines()[1:]:
                words = line.split()
                address, _, there = words[2].partition(":")
                if words[3] == ESTABLISHED and int(there, 16) == port:
                    found.append((words[9], f"{_address(address)}:{port}"))
    return found


def _address(text: str) -> str:
    """As the tables write it: words of four bytes, each in the order of this machine."""
    words = bytes.fromhex(text)
    found = ipaddress.ip_address(b"".join(words[i : i + 4][::-1] for i in range(0, len(words), 4)))
    return str(getattr(found, "ipv4_mapped", None) or found)


__all__ = ["connected"]
