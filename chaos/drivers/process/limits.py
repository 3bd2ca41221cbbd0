"""Limits of processes that anyone may change who may signal them: address space."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import anyio.lowlevel

from chaos.api import JSON, Member
from chaos.errors import NotLanded, Unsupported

PAGE = os.sysconf("SC_PAGE_SIZE")


class Limiting:
    """Implements Limits."""

    def __init__(self) -> None:
        self._before: dict[int, int] = {}  # by process id, of those that are limited

    async def limit_address_space(self, member: Member, size: int | None) -> JSON:
        await anyio.lowlevel.checkpoint()
        try:
            used = _pages(member.pid) * PAGE
            now, hard = resource.prlimit(member.pid, resource.RLIMIT_AS)
            if size is None:
                soft = self._before.pop(member.pid, now)
            else:
                self._before.setdefault(member.pid, now)
                soft = size or used
            resource.prlimit(member.pid, resource.RLIMIT_AS, (soft, hard))
            after = resource.prlimit(member.pid, resource.RLIMIT_AS)[0]
        except (ProcessLookupError, FileNotFoundError, IndexError) as error:
            raise NotLanded(f"{member.name} (process {member.pid}) has already gone") from error
        except PermissionError as error:
            raise Unsupported(f"no right to limit {member.name} (process {member.pid}): {error}") from error
        return {"size": used, "limit": None if after == resource.RLIM_INFINITY else after}


def _pages(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[0])
