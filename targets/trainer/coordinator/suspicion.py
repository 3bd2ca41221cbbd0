"""Which devices were named as the source of wrong values, and which of them may stay. Pure."""

from __future__ import annotations

from collections import defaultdict

from targets.trainer import defects
from targets.trainer.settings import Settings

ENOUGH = 2  # times: once may be a particle from space


class Suspicion:
    """A node that is named a second time is excluded, and only then; never so many that too few are left."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._named: defaultdict[str, set[tuple[int, int]]] = defaultdict(set)
        self.excluded: set[str] = set()
        self.parting: set[str] = set()  # excluded since the group was last formed

    def name(self, node: str, epoch: int, step: int) -> bool:
        """A rank on that node computed or held a wrong value in that step; whether nobody had said so yet."""
        known = (epoch, step) in self._named[node]
        self._named[node].add((epoch, step))
        return not known

    def evidence(self, node: str) -> list[int]:
        """The steps in which it was named."""
        return sorted(step for _, step in self._named[node])

    def guilty(self, node: str, present: int) -> bool:
        """Whether it must go; `present` nodes could be members of a group."""
        if defects.active(self._settings, defects.DEVICE_KEPT):
            return False
        enough = 1 if defects.active(self._settings, defects.BLAMES_WITHOUT_EVIDENCE) else ENOUGH
        return node not in self.excluded and len(self._named[node]) >= enough and present > self._settings.min_world

    def exclude(self, node: str) -> None:
        """Leave it out of every group from the next one on."""
        self.excluded.add(node)
        self.parting.add(node)
