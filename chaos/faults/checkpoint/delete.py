"""A file of a checkpoint that is not there any more."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal

from chaos.api import Checkpoints, Landing, Selection
from chaos.faults.checkpoint._files import FaultAtRest, remove, to_its_end
from chaos.layout import Which


class Delete(FaultAtRest, frozen=True, kw_only=True):
    """Remove the shards of a generation that match `shard`, or its manifest.

    Proof: what each file held, and that it is not there afterwards.

    Heal: none.
    """

    fidelity = (
        "an interrupted upload or download, a lost object, a cleaner that took too much. A reader that has the file "
        "open keeps it. The commit marker stays: take that with checkpoint.unmark."
    )

    generation: Which = "newest"
    what: Literal["shard", "manifest"] = "shard"
    shard: str = "*"

    @asynccontextmanager
    async def inject(self, target: Checkpoints, *hit: Selection) -> AsyncIterator[Landing]:
        root, layout = target.data_root(), target.layout()
        generation = layout.find(root, self.generation)
        files = layout.files(generation, self.what, self.shard)
        gone = await to_its_end(lambda: [remove(file, root) for file in files])
        yield Landing({"generation": generation.number, "files": gone})
