"""Bytes at rest that are no longer what was written."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from chaos.api import JSON, Checkpoints, Landing, Ratio, Selection
from chaos.errors import NotLanded
from chaos.faults.checkpoint._files import FaultAtRest, allowed, digest, place, to_its_end
from chaos.layout import Part, Which, outside

Mode = Literal["flip", "truncate", "zero"]


class Corrupt(FaultAtRest, frozen=True, kw_only=True):
    """Damage files of a checkpoint: of a generation the shards that match `shard`, its manifest or its marker.

    `flip` turns one bit at `at`, `truncate` cuts off what follows it, `zero` fills that with zeros. `path`, a glob
    below the target's data, takes the place of generation and part.

    Proof: each file's SHA-256 before and after.

    Heal: none, the damage stays: the target must notice it and go on
    from a good copy.
    """

    fidelity = (
        "rot at rest, a torn or lost write that was acknowledged: readers get wrong bytes and no error. It goes "
        "through the file system, so a checksum below it (ZFS, a drive) does not see it as damage."
    )

    path: Annotated[str, Meta(description="a glob below the target's data")] | None = None
    generation: Which = "newest"
    what: Part = "shard"
    shard: str = "*"
    mode: Mode = "flip"
    at: Ratio = 0.5  # where, as a share of the file's length: header or tensor, as the format has it

    def __post_init__(self) -> None:
        if self.at > 1:
            raise ValueError(f"`at` is a share of the file, 1 at most, not {self.at:g}")
        if self.path is not None and outside(self.path):
            raise ValueError(f"`path` is a glob below the target's data, not {self.path!r}")

    def sections(self) -> tuple[str, ...]:
        return () if self.path is not None else ("checkpoints",)

    @asynccontextmanager
    async def inject(self, target: Checkpoints, *hit: Selection) -> AsyncIterator[Landing]:
        root = target.data_root()
        if self.path is not None:
            path = self.path
            done = await to_its_end(lambda: damage(root, path, self.mode, self.at))
            yield Landing({"mode": self.mode, "files": done})
            return
        layout = target.layout()
        generation = layout.find(root, self.generation)
        files = layout.files(generation, self.what, self.shard)
        done = await to_its_end(lambda: [_damage_file(file, root, self.mode, self.at) for file in files])
        yield Landing({"mode": self.mode, "generation": generation.number, "files": done})


def damage(root: Path, pattern: str, mode: Mode, at: float = 0.5) -> list[JSON]:
    """Damage every file that matches, in place; what was done to each. NotLanded where bytes stayed the same."""
    files = sorted(f for f in root.glob(pattern) if f.is_file() and f.resolve().is_relative_to(root.resolve()))
    if not files:
        raise NotLanded(f"no file matches {pattern} below {root}")
    return [_damage_file(file, root, mode, at) for file in files]


def _damage_file(file: Path, root: Path, mode: Mode, at: float) -> JSON:
    before, size = digest(file), file.stat().st_size
    offset = min(int(size * at), max(size - 1, 0))
    with allowed(f"write {file}"), file.open("r+b") as data:
        if mode == "truncate":
            data.truncate(offset)
        else:
            data.seek(offset)
            old = data.read(1 if mode == "flip" else -1)
            data.seek(offset)
            data.write(bytes([old[0] ^ 1]) if mode == "flip" and old else bytes(len(old)))
    after = digest(file)
    if before == after:
        raise NotLanded(f"{mode} left {file} as it was ({size} bytes)")
    return {"offset": offset, "size": size, "before": before, "after": after, "file": place(file, root)}
