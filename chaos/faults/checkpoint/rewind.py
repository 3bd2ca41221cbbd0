"""A pointer to the newest checkpoint that points to an older one."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from chaos.api import JSON, Checkpoints, Landing, Selection
from chaos.errors import NotLanded
from chaos.faults.checkpoint._files import FaultAtRest, replace, to_its_end
from chaos.layout import Generation, Layout, Which


class Rewind(FaultAtRest, frozen=True, kw_only=True):
    """Roll the file that names the newest generation back, to the one that `to` means.

    The last number in the file is taken for that of a generation.

    Proof: the file's text before and after, and its SHA-256.

    Heal: none.
    """

    fidelity = (
        "an overwrite that was not durable, a tracker that is copied or cached apart from what it names, a writer that "
        "lost a race. The generations themselves are all there."
    )

    to: Which = "newest-1"

    @asynccontextmanager
    async def inject(self, target: Checkpoints, *hit: Selection) -> AsyncIterator[Landing]:
        root, layout = target.data_root(), target.layout()
        generation = layout.find(root, self.to)
        yield Landing({"generation": generation.number, **await to_its_end(lambda: _rewind(root, layout, generation))})


def _rewind(root: Path, layout: Layout, generation: Generation) -> JSON:
    pointer = root / layout.part("latest")
    if not pointer.is_file():
        raise NotLanded(f"there is no {pointer} to roll back")
    said = pointer.read_text()
    numbers = list(re.finditer(r"\d+", said))
    if not numbers:
        raise NotLanded(f"{pointer} names no generation: {said[:80]!r}")
    last = numbers[-1]
    if int(last[0]) <= generation.number:
        raise NotLanded(f"{pointer} names generation {int(last[0])}: not newer than {generation.number}")
    says = said[: last.start()] + str(generation.number).zfill(len(last[0])) + said[last.end() :]
    return {"said": said.strip(), "says": says.strip(), "files": [replace(pointer, says.encode(), root)]}
