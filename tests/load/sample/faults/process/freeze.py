"""Freeze, for tests: one setting of every type that a plugin may have."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Annotated, Literal

from msgspec import Meta

from chaos.api import Duration, Fault, Landing, Ratio, Selection, Selector, Signals, Size


class Freeze(Fault[Signals], frozen=True, kw_only=True):
    """Stop members, start them again."""

    fidelity = "Stands for a hang."
    members: Selector
    ramp: Duration = 0.0
    duty: Ratio = 1.0
    scratch: Size = 65536
    how: Literal["stop", "cgroup"] = "stop"
    threads: Annotated[int, Meta(ge=1, le=64)] = 1
    only_leader: bool = False
    note: str | None = None
    signals: tuple[int, ...] = (19,)

    def __post_init__(self) -> None:
        if self.how == "cgroup" and self.only_leader:
            raise ValueError("a cgroup has no leader")

    def selectors(self) -> tuple[Selector, ...]:
        return (self.members,)

    def inject(self, target: Signals, *hit: Selection) -> AbstractAsyncContextManager[Landing]:
        raise NotImplementedError
