"""What was written to files and not synced since, so that it can be taken back."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

from chaos.api import JSON
from chaos.drivers.process.fittings.tap.operation import Operation
from chaos.trigger import matches_path

OPS = frozenset({"open", "write", "truncate", "fsync"})


class Old(NamedTuple):
    """What a change took the place of."""

    offset: int
    content: bytes
    size: int  # of the file


class Unsynced:
    """An observer: of the files whose names match, an undo log of each since its last sync.

    Not seen: writes through mapped memory and io_uring. Content that is written over is kept in memory meanwhile.
    """

    ops = OPS

    def __init__(self, patterns: Iterable[str], root: str) -> None:
        self.patterns = tuple(patterns)
        self._root = root
        self._logs: dict[tuple[int, int], list[Old]] = {}  # by device and inode

    def before(self, operation: Operation) -> int | None:
        """Keep what the operation is about to change; a sync closes the log."""
        path = operation.path.removeprefix(self._root)
        if not any(matches_path(pattern, path) for pattern in self.patterns):
            return None
        with suppress(FileNotFoundError, ProcessLookupError):
            if "fsync" in operation.ops:
                self._logs.pop(_identity(operation), None)
            elif "write" in operation.ops:
                self._keep(operation, operation.offset(), operation.size or 0)
            elif "truncate" in operation.ops:
                self._keep(operation, operation.size or 0, None)
            elif operation.flags & os.O_TRUNC and "create" not in operation.ops:
                self._keep(operation, 0, None)
        return None

    def drop(self, operation: Operation) -> JSON:
        """Put the file that the operation works on back to what it was at its last sync."""
        log = self._logs.pop(_identity(operation), [])
        place = _place(operation)
        if not stat.S_ISREG(os.stat(place).st_mode):  # a folder: its names stay
            return {"dropped": 0}
        before = os.stat(place).st_size
        size = log[0].size if log else before
        with open(place, "r+b", buffering=0) as file:
            for old in reversed(log):
                os.ftruncate(file.fileno(), old.size)
                if old.content:
                    os.pwrite(file.fileno(), old.content, old.offset)
        rewritten = sum(len(old.content) for old in log)
        return {"size-before": before, "size-after": size, "dropped": max(before - size, 0) + rewritten}

    def _keep(self, operation: Operation, offset: int, length: int | None) -> None:
        place = _place(operation)
        if not stat.S_ISREG(os.stat(place).st_mode):
            return
        size = os.stat(place).st_size
        until = size if length is None else min(size, offset + length)
        content = b""
        if until > offset:
            with open(place, "rb", buffering=0) as file:
                content = os.pread(file.fileno(), until - offset, offset)
        self._logs.setdefault(_identity(operation), []).append(Old(offset, content, size))


def _place(operation: Operation) -> str:
    return operation.reach() if operation.fd is None else f"/proc/{operation.tid}/fd/{operation.fd}"


def _identity(operation: Operation) -> tuple[int, int]:
    about = os.stat(_place(operation))
    return about.st_dev, about.st_ino
