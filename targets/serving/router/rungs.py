"""The ladder's moves, told."""

from __future__ import annotations

from targets.serving.defects import NO_HYSTERESIS, active
from targets.serving.router.facts import Facts
from targets.serving.router.ladder import Ladder, Limits
from targets.serving.router.window import Clock
from targets.serving.settings import Settings


class Rungs:
    """Moves the ladder as the settings say, and says so."""

    def __init__(self, settings: Settings, facts: Facts, clock: Clock) -> None:
        steady = not active(settings, NO_HYSTERESIS)
        self._facts = facts
        self.ladder = Ladder(
            Limits(settings.ladder_p99, settings.ladder_errors, settings.ladder_queue),
            lower=settings.ladder_lower if steady else 1.0,
            window=settings.ladder_window,
            hold=settings.ladder_hold if steady else 0.0,
            settle=None if steady else 0.0,
            clock=clock,
        )

    def look(self, queue: int) -> None:
        """Move a rung, if that is to be."""
        move = self.ladder.look(queue)
        if move is None:
            return
        with self._facts.path("ladder.down" if move.down else "ladder.up"):
            self._facts.emit(
                "ladder.moved",
                before=move.before,
                after=move.after,
                reason=move.reason,
                p99=round(move.p99, 6),
                errors=round(move.errors, 4),
                queue=move.queue,
            )
