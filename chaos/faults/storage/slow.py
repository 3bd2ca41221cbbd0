"""Storage that takes its time."""

from __future__ import annotations

from chaos.api import Duration
from chaos.faults.storage._files import FileFault, Ops
from chaos.fileops import Rule


class Slow(FileFault, frozen=True, kw_only=True):
    """Each operation that is hit takes `delay` longer, then happens.

    The thread waits as in a slow call; the other threads of the process go on. The fault is armed, and lands with the
    first operation that it hits.

    Proof: that operation is held now; the seconds that each was held are told with the heal.

    Heal: what is held goes on at once, and nothing is held any more.
    """

    fidelity = (
        "a slow or overloaded disk or network file system: latency of single calls. Bandwidth is not limited, and the "
        "kernel's own writing behind is as fast as ever."
    )

    delay: Duration
    ops: Ops = ("write", "fsync")

    def __post_init__(self) -> None:
        if self.delay <= 0:
            raise ValueError("a delay of nothing is none")
        super().__post_init__()

    def rule(self) -> Rule:
        return self.hitting(self.ops, action="delay", delay=self.delay)
