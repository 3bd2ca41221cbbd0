"""What faults of power, disks and file systems may ask of a target: the rest of `chaos.api` for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, Protocol, runtime_checkable

import msgspec

from chaos.api import JSON, Member


@runtime_checkable
class Power(Protocol):
    """Nodes can lose their power and get it back."""

    async def power_off(self, nodes: Sequence[str]) -> JSON:
        """End every process on these nodes at one moment, members or not: who that was. NotLanded when nobody was
        there, or when one lives on."""

    async def power_on(self, nodes: Sequence[str]) -> JSON:
        """Start again, in their order, what the harness had started there and `power_off` ended; NotLanded when one
        does not start."""


@runtime_checkable
class Disks(Protocol):
    """The data lies on disks that can lose power, and with it what was not synced."""

    async def lose_unsynced(self, path: str) -> JSON:
        """The disk that holds the folder `path` below the data loses what was not synced, directory entries included,
        and is there again as after a boot: what was lost and what was kept. Whoever used it must have ended."""


@runtime_checkable
class PoweredDisks(Power, Disks, Protocol):
    """Nodes can lose their power, and their disks what was not synced."""


class Lie(msgspec.Struct, frozen=True, kw_only=True):
    """What a member's view of its files changes.

    `bit-rot`: reads give the byte at the share `at` of a file with the bits of `mask` turned. `short-read`: reads give
    the share `keep` of what is there, at least one byte unless it is 0. `torn-write`: the first share `keep` of a write
    reaches the file, and all of it is acknowledged. `throttle`: reads and writes share a line of `rate` bytes a second.
    `stale-metadata`: names and attributes are those of the moment at which it began. Short reads and torn writes hit
    the operations from `first` to `last` of those that match.
    """

    kind: Literal["bit-rot", "short-read", "torn-write", "throttle", "stale-metadata"]
    path: str  # a glob below the data, as in `chaos.trigger.OnFile`
    at: float = 0.5
    mask: int = 1
    keep: float = 0.5
    rate: int = 0
    first: int = 1
    last: int | None = None


class Told(Protocol):
    """A lie that stands."""

    async def hit(self, before: Callable[[], None]) -> JSON:
        """Wait until somebody was told it first; the proof."""

    async def lift(self) -> JSON:
        """The truth again; how often it was told, to whom. May be called twice."""


@runtime_checkable
class Views(Protocol):
    """Members see their files through a file system of the harness."""

    async def lie(self, lie: Lie, members: Sequence[Member]) -> Told:
        """From now on, have the views of these members tell it, and of nobody else; NotLanded for a member that sees
        the bare files."""
