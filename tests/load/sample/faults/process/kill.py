"""Kill, for tests."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from chaos.api import Fault, Landing, Selection, Selector, Signals


class Kill(Fault[Signals], frozen=True, kw_only=True):
    """Kill members at once.

    Nothing is left to heal.
    """

    fidelity = "Stands for a crash. Does not show a slow death."
    instant = True
    members: Selector

    def selectors(self) -> tuple[Selector, ...]:
        return (self.members,)

    def inject(self, target: Signals, *hit: Selection) -> AbstractAsyncContextManager[Landing]:
        raise NotImplementedError
