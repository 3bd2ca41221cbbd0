"""A folder that looks like the newest checkpoint, and is none."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from chaos.api import JSON, Checkpoints, Landing, Selection
from chaos.errors import NotLanded
from chaos.faults.checkpoint._files import FaultAtRest, allowed, digest, place, to_its_end
from chaos.layout import Generation, Layout, Which

Marker = Literal["none", "empty", "copied"]


class Plant(FaultAtRest, frozen=True, kw_only=True):
    """Copy a generation to a number that is `ahead` of all others: a plausible newest one that nobody saved.

    `marker` is what its commit marker will be: `none`, an `empty` file, or `copied` as all the rest.

    Proof: the files of the new folder and their SHA-256; it was not there before.

    Heal: none.
    """

    fidelity = (
        "the left-over of another run in the same folder, a half-done copy, a restore of a backup under a wrong name. "
        "It is a copy of true content: a directory that was forged with care, digests and all, is not shown."
    )

    generation: Which = "newest"
    ahead: Annotated[int, Meta(ge=1)] = 1
    marker: Marker = "none"

    @asynccontextmanager
    async def inject(self, target: Checkpoints, *hit: Selection) -> AsyncIterator[Landing]:
        root, layout = target.data_root(), target.layout()
        source = layout.find(root, self.generation)
        number = layout.all(root)[-1].number + self.ahead
        planted = layout.named(root, str(number).zfill(len(source.digits)))
        files = await to_its_end(lambda: self._plant(root, layout, source, planted))
        about = {"generation": number, "copy-of": source.number, "marker": self.marker}
        yield Landing({**about, "folder": place(planted, root), "files": files})

    def _plant(self, root: Path, layout: Layout, source: Generation, planted: Path) -> list[JSON]:
        marker = layout.part("marker")
        half = planted.with_name(f".{planted.name}.planted")  # appears as a whole, as a left-over does
        with allowed(f"create {planted}"):
            shutil.copytree(source.folder, half)
            if self.marker != "copied":
                (half / marker).unlink(missing_ok=True)
            if self.marker == "empty":
                (half / marker).touch()
            if planted.exists():
                shutil.rmtree(half)
                raise NotLanded(f"{planted} is there already")
            half.rename(planted)
        files = sorted(f for f in planted.rglob("*") if f.is_file())
        return [{"file": place(f, root), "size": f.stat().st_size, "digest": digest(f)} for f in files]
