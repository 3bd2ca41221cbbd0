"""A shard of another generation under the name of this one's."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from chaos.api import JSON, Checkpoints, Landing, Selection
from chaos.errors import NotLanded
from chaos.faults.checkpoint._files import FaultAtRest, place, replace, to_its_end
from chaos.layout import Generation, Layout, Which


class Swap(FaultAtRest, frozen=True, kw_only=True):
    """Put shards of an older generation in the place of a newer one's, those that match `shard`.

    Proof: each file's SHA-256 before and after; afterwards it is that of the older generation's file.

    Heal: none.
    """

    fidelity = (
        "a stale replica, a cache or a snapshot that gives back what was once there: the bytes are whole, of the right "
        "shape, and of another step. It is at rest: a reader that has the file open sees the change or not."
    )

    generation: Which = "newest"
    older: Which = "newest-1"
    shard: str = "*"

    @asynccontextmanager
    async def inject(self, target: Checkpoints, *hit: Selection) -> AsyncIterator[Landing]:
        root, layout = target.data_root(), target.layout()
        generation, older = layout.find(root, self.generation), layout.find(root, self.older)
        files = await to_its_end(lambda: self._swap(root, layout, generation, older))
        yield Landing({"generation": generation.number, "older": older.number, "files": files})

    def _swap(self, root: Path, layout: Layout, generation: Generation, older: Generation) -> list[JSON]:
        if older.number >= generation.number:
            raise NotLanded(f"generation {older.number} is not older than {generation.number}")
        done = []
        for file in layout.files(generation, "shard", self.shard):
            source = older.folder / file.relative_to(generation.folder)
            if not source.is_file():
                raise NotLanded(f"generation {older.number} has no {place(source, older.folder)}")
            done.append({**replace(file, source.read_bytes(), root), "from": place(source, root)})
        return done
