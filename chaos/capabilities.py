"""What few targets can do, beside the capabilities in `chaos/api.py`: set up only in runs that have a fault for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

import msgspec

from chaos.api import JSON, Member


class Device(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A device of a node, and the ranks that use it: all of the node's where none is given."""

    name: str
    node: str
    ranks: tuple[int, ...] = ()
    index: int | None = None  # by which NVML knows it

    def uses(self, rank: int) -> bool:
        """Whether that rank of its node does."""
        return rank in self.ranks if self.ranks else True


@runtime_checkable
class Devices(Protocol):
    """Ranks are bound to devices: the target file has `devices`. A device is a failure domain of its ranks."""

    def devices(self) -> tuple[Device, ...]:
        """All of them, in order of declaration."""


@runtime_checkable
class Groups(Protocol):
    """Members stand in control groups, by which their processor time, their memory and their running can be limited.

    The group of a member that the harness started holds all that it forked; one that a member started is taken out of
    that, and is in a group alone while it is limited. Controllers are `cpu`, `memory` and `freezer`.
    """

    def controllers(self) -> Mapping[str, str]:
        """Those there are, with how: `{"cpu": "v1"}`."""

    async def restrict(self, member: Member, controller: str, value: float) -> JSON:
        """Limit it to `value` cores, to bytes (0: as few as it uses now), or freeze it; what was set where. NotLanded
        where it is limited already or has gone, Unsupported where the controller is missing."""

    async def lift(self, member: Member, controller: str) -> JSON:
        """Undo that and prove it. Harmless when it was never limited or has gone; HealFailed with what to undo."""

    def account(self, member: Member, controller: str) -> JSON:
        """What the kernel has counted for its group: `{throttled, throttled_seconds}`, `{bytes, limit, oom_kills}` or
        `{frozen}`. Never cached."""


@runtime_checkable
class Limits(Protocol):
    """The kernel's limits on a process can be changed while it runs."""

    async def limit_address_space(self, member: Member, size: int | None) -> JSON:
        """Grant a process no more than `size` bytes of address space (0: what it has now; None: as much as before).
        `{size, limit}`: what it has, and what it may have. NotLanded when it has gone."""

    async def how_it_ended(self, member: Member) -> JSON:
        """Wait until a member that was limited has ended. `{code, said}`: its exit code, null where nobody could tell,
        and the first line of its log since the limit that tells of missing memory, or null."""


@runtime_checkable
class Clocks(Protocol):
    """The wall clocks of members can be shifted: what they are told when they ask for the time."""

    async def shift_clock(self, member: Member, seconds: float) -> JSON:
        """Have it ahead by so much from now on (behind, where negative), with what it forks later; again: by another
        amount. `{ahead}` as it was measured. NotLanded where it has gone, or somebody else's shift stands."""

    async def true_clock(self, member: Member) -> JSON:
        """Undo that and prove it. Harmless when it was never shifted or has gone; HealFailed with what to undo."""

    def clock_ahead(self, member: Member) -> float:
        """Seconds by which its wall clock is ahead of this machine's, by what its own clock functions say now."""
