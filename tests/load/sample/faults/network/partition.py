"""Partition, for tests."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from chaos.api import Fault, Landing, Links, Selection, Selector


class Partition(Fault[Links], frozen=True, kw_only=True):
    """Cut the network between two sets of nodes."""

    fidelity = "Stands for a broken switch."
    between: tuple[Selector, Selector]

    def selectors(self) -> tuple[Selector, ...]:
        return self.between

    def inject(self, target: Links, *hit: Selection) -> AbstractAsyncContextManager[Landing]:
        raise NotImplementedError
