"""A committed checkpoint that nothing says is one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from chaos.api import Checkpoints, Landing, Selection
from chaos.faults.checkpoint._files import FaultAtRest, remove, to_its_end
from chaos.layout import Which


class Unmark(FaultAtRest, frozen=True, kw_only=True):
    """Remove the commit marker of a generation; all else of it stays.

    Proof: what the marker held, and that it is not there afterwards.

    Heal: none.
    """

    fidelity = (
        "a marker whose name was never durable, or that a sync tool did not copy. Whether such a generation may be "
        "committed again depends on what else the target wrote down; to restore it as it is, is wrong."
    )

    generation: Which = "newest"

    @asynccontextmanager
    async def inject(self, target: Checkpoints, *hit: Selection) -> AsyncIterator[Landing]:
        root, layout = target.data_root(), target.layout()
        generation = layout.find(root, self.generation)
        (marker,) = layout.files(generation, "marker")
        gone = await to_its_end(lambda: remove(marker, root))
        yield Landing({"generation": generation.number, "files": [gone]})
