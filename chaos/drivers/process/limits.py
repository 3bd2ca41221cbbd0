"""Limits of processes that anyone may change who may signal them: address space."""

from __future__ import annotations

import os
import re
import resource
from abc import ABC, abstractmethod
from pathlib import Path

import anyio
import anyio.lowlevel

from chaos.api import JSON, Member
from chaos.errors import NotLanded, Unsupported

PAGE = os.sysconf("SC_PAGE_SIZE")
NO_MEMORY = re.compile(r"MemoryError|bad_alloc|out of memory|cannot allocate memory|ENOMEM", re.IGNORECASE)


class _Ending:
    """How a process that was limited ended, once that is `told`; what is in its log after `size` is of since then."""

    def __init__(self, log: Path | None) -> None:
        self.log = log
        self.size = log.stat().st_size if log and log.exists() else 0
        self.told = anyio.Event()
        self.code: int | None = None

    def said(self) -> str | None:
        if self.log is None or not self.log.exists():
            return None
        with self.log.open("rb") as file:
            file.seek(self.size)
            lines = file.read().decode(errors="replace").splitlines()
        return next((line[:200] for line in lines if NO_MEMORY.search(line)), None)


class Limiting(ABC):
    """Implements Limits."""

    def __init__(self) -> None:
        self._before: dict[int, int] = {}  # by process id, of those that are limited
        self._endings: dict[int, _Ending] = {}  # by process id, of those that ever were

    @abstractmethod
    def log_of(self, member: Member) -> Path | None:
        """The file that what it prints ends up in."""

    def has_ended(self, pid: int, code: int | None) -> None:
        """To be told of every end, after all that was said."""
        if ending := self._endings.get(pid):
            ending.code = code
            ending.told.set()

    async def how_it_ended(self, member: Member) -> JSON:
        if (ending := self._endings.get(member.pid)) is None:
            raise NotLanded(f"{member.name} (process {member.pid}) was never limited")
        await ending.told.wait()
        return {"code": ending.code, "said": ending.said()}

    async def limit_address_space(self, member: Member, size: int | None) -> JSON:
        await anyio.lowlevel.checkpoint()
        try:
            used = _pages(member.pid) * PAGE
            now, hard = resource.prlimit(member.pid, resource.RLIMIT_AS)
            if size is None:
                soft = self._before.pop(member.pid, now)
            else:
                if member.pid not in self._before:
                    self._before[member.pid] = now
                    self._endings[member.pid] = _Ending(self.log_of(member))
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
