"""Who is slow. Pure.

The step of a group is as slow as its slowest rank, and every rank that waits for it looks slow from outside. So each
rank tells how long its own part takes, in which it waits for nobody, and these spans are compared across the ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from targets.trainer import defects
from targets.trainer.settings import Settings

WINDOW = 6  # steps over which the spans are averaged
PATIENCE = 3  # windows in a row: a rank that was frozen once, or starved for a moment, is no straggler
LEAST = 0.03  # seconds a step that are worth a word
SPANS = ("computing", "reading its batch")


class Slow(NamedTuple):
    """A rank whose own part takes much longer than that of the others."""

    rank: int
    span: str
    seconds: float  # a step
    others: float  # the median of the other ranks

    @property
    def reason(self) -> str:
        return f"{self.span} takes {self.seconds * 1e3:.0f} ms a step, {self.others * 1e3:.0f} ms elsewhere"


class Spent(NamedTuple):
    """What a rank has spent since it began: steps, and the seconds of each span."""

    steps: int = 0
    computing: float = 0.0
    loading: float = 0.0


class Pace:
    """The spans of the ranks of one incarnation after the other."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.evicted: set[str] = set()  # nodes
        self.parting: set[str] = set()  # evicted since the group was last formed
        self.cost = 0.0  # seconds that forming a group takes
        self.restart()

    def restart(self) -> None:
        """A new incarnation begins."""
        self._now: dict[int, Spent] = {}
        self._since: dict[int, Spent] = {}
        self._slow: dict[tuple[int, str], int] = {}  # windows in a row
        self.found: dict[int, Slow] = {}  # those that were told

    def note(self, rank: int, spent: Sequence[float]) -> None:
        """What a rank said of itself."""
        self._now[rank] = Spent(int(spent[0]), spent[1], spent[2])
        self._since.setdefault(rank, self._now[rank])

    def look(self, world: int) -> Slow | None:
        """A rank that was not known to be slow and has been for a while."""
        if world < 2 or len(self._now) < world or min(map(self._steps, self._now)) < WINDOW:
            return None
        means = {rank: self._means(rank) for rank in self._now}
        self._since = dict(self._now)
        told = None
        for index, span in enumerate(SPANS):
            for rank, own in means.items():
                others = median(mean[index] for other, mean in means.items() if other != rank)
                slow = own[index] > max(self._settings.straggler_factor * others, others + LEAST)
                count = self._slow[rank, span] = self._slow.get((rank, span), 0) + 1 if slow else 0
                if slow and count >= PATIENCE:
                    new, self.found[rank] = rank not in self.found, Slow(rank, span, own[index], others)
                    told = self.found[rank] if new else told
        return told

    def gain(self, slow: Slow, world: int, remaining: int) -> float:
        """Seconds that the rest of the job would be shorter by without that rank; the others do its work as well."""
        return remaining * (slow.seconds - slow.others * world / max(world - 1, 1))

    def pays(self, gain: float) -> bool:
        """Whether parting with a rank is worth forming the group anew."""
        return gain > self.cost or defects.active(self._settings, defects.EVICTS_AT_ANY_PRICE)

    def evict(self, node: str) -> None:
        """Leave it out of every group from the next one on."""
        self.evicted.add(node)
        self.parting.add(node)

    def _steps(self, rank: int) -> int:
        return self._now[rank].steps - self._since[rank].steps

    def _means(self, rank: int) -> tuple[float, float]:
        now, since, steps = self._now[rank], self._since[rank], self._steps(rank)
        return (now.computing - since.computing) / steps, (now.loading - since.loading) / steps
