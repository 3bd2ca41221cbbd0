"""An invariant, for tests."""

from __future__ import annotations

from typing import Literal

from chaos.api import Invariant
from chaos.history import History
from chaos.verdict import Verdict, unknown


class FencedWriter(Invariant, frozen=True, kw_only=True):
    """A stale epoch cannot write."""

    id = "T9"
    needs = ("write.accepted",)
    attempt: Literal["required", "optional"] = "required"

    def check(self, history: History) -> Verdict:
        return unknown("never asked")
