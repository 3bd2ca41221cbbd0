"""File operations of members, as triggers and faults speak of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any, Literal, Protocol, get_args

import msgspec

# `create` is an open that makes the file; `stat` any question about a name; a folder is synced by `fsync` too.
Op = Literal[
    "open", "create", "read", "write", "fsync", "rename", "unlink", "truncate", "mkdir", "rmdir", "link", "stat"
]
FILE_OPS: tuple[Op, ...] = get_args(Op)


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """Which file operations are hit, and what becomes of them: of those that match, the ones from `first` to `last`,
    each `every`th. One counter for all members, their threads and their children.

    `errno`: the operation fails with that number, and does not happen. `delay`: it happens after so many seconds.
    `kill`: the process is ended instead; a write has put its first `torn` bytes into the file. `lie`: success is
    reported, and it does not happen. `drop`: it fails with `errno`, and what was written and not synced is lost.
    """

    ops: tuple[Op, ...]
    path: str  # a glob as in `chaos.trigger.OnFile`
    action: Literal["errno", "delay", "kill", "lie", "drop"]
    errno: int = 0
    delay: float = 0.0
    torn: int | None = None
    first: int = 1
    last: int | None = None
    every: int = 1

    def due(self, n: int) -> bool:
        """Whether the nth operation that matches is hit."""
        return n >= self.first and (self.last is None or n <= self.last) and (n - self.first) % self.every == 0


def reachable(path: str) -> bool:
    """Whether a file operation may be on a path that matches this glob: those are told as the kernel knows them."""
    parts = PurePosixPath(path).parts
    return bool(parts) and ".." not in parts


class Tapped(Protocol):
    """A rule that stands."""

    async def first(self, before: Callable[[], None]) -> dict[str, Any]:
        """Wait for the first operation that is hit: `before` is called, then it is; the proof."""

    async def lift(self) -> dict[str, Any]:
        """Let everything pass again, also what is delayed now; what was hit in all. May be called twice."""
