"""What polls say of one replica, on three levels: it lives, it is ready, its answer to a known question is right."""

from __future__ import annotations

from typing import Final, NamedTuple

LEVELS: Final = ("live", "ready", "correct")  # each means something only where the one before is given


class Change(NamedTuple):
    """A level that is up now, or down."""

    level: str
    up: bool
    reason: str


class Finding(NamedTuple):
    """What one poll found: the first level that is missed, or none."""

    missed: str | None = None
    reason: str = ""
    draining: bool = False
    answered: bool = True


class Health:
    """The levels of one replica. All are down until they have been seen: nobody is fit by default."""

    def __init__(self, *, out: int, back: int) -> None:
        self._out, self._back = out, back
        self._up = dict.fromkeys(LEVELS, False)
        self._misses = dict.fromkeys(LEVELS, 0)  # in a row
        self._hits = dict.fromkeys(LEVELS, 0)  # in a row

    @property
    def up(self) -> bool:
        """Whether every level is."""
        return all(self._up.values())

    @property
    def levels(self) -> dict[str, bool]:
        return dict(self._up)

    def observe(self, finding: Finding) -> list[Change]:
        """Take in one poll: `out` misses in a row take a level down, and those above; `back` hits bring it back."""
        changes: list[Change] = []
        for level in LEVELS:
            if level == finding.missed:
                changes += self._miss(level, finding)
                break
            changes += self._hit(level)
        return changes

    def _hit(self, level: str) -> list[Change]:
        self._misses[level] = 0
        self._hits[level] += 1
        if self._up[level] or self._hits[level] < self._back:
            return []
        self._up[level] = True
        return [Change(level, True, f"{self._hits[level]} hits")]

    def _miss(self, level: str, finding: Finding) -> list[Change]:
        self._hits[level] = 0
        self._misses[level] += 1
        if self._misses[level] < self._out and not finding.draining:  # who says that it leaves is believed at once
            return []
        changes = [Change(level, False, finding.reason)] if self._up[level] else []
        self._up[level] = False
        for above in LEVELS[LEVELS.index(level) + 1 :]:
            self._hits[above] = self._misses[above] = 0  # what was true of it may be of a process that has gone
            if self._up[above]:
                self._up[above] = False
                changes.append(Change(above, False, f"not {level}"))
        return changes
