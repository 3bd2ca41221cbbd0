"""What a target can do about power and disks, beside what `chaos.api` says: contracts between faults and drivers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from chaos.api import JSON


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
