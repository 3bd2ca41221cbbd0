"""An invariant that a target must feed with an event of its own, for tests."""

from __future__ import annotations

from chaos.api import Duration, Invariant
from chaos.history import History
from chaos.verdict import Verdict, unknown


class NoOrphan(Invariant, frozen=True, kw_only=True):
    """No worker outlives its supervisor."""

    id = "T12"
    needs = ("worker.stopped", "member.exited")
    lease: Duration = 3.0

    def check(self, history: History) -> Verdict:
        return unknown("never asked")
