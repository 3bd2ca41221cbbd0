"""Bytes at rest that are no longer what was written."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal

import anyio.to_thread
from msgspec import Meta

from chaos.api import JSON, Fault, Files, Landing, Ratio, Selection, Selector
from chaos.errors import NotLanded, Unsupported

Mode = Literal["flip", "truncate", "zero"]


class Corrupt(Fault[Files], frozen=True, kw_only=True):
    """Damage the files that match the glob `path` below the target's data.

    `flip` turns one bit at `at`, `truncate` cuts off what follows it, `zero` fills that with zeros.

    Proof: each file's SHA-256 before and after.

    Heal: none, the damage stays: the target must notice it and go on
    from a good copy.
    """

    fidelity = (
        "rot at rest, a torn or lost write that was acknowledged: readers get wrong bytes and no error. It goes "
        "through the file system, so a checksum below it (ZFS, a drive) does not see it as damage."
    )
    instant = True

    path: Annotated[str, Meta(description="a glob below the target's data", examples=["store/gen-000002/shards/*"])]
    mode: Mode = "flip"
    at: Ratio = 0.5  # where, as a share of the file's length: header or tensor, as the format has it

    def __post_init__(self) -> None:
        if self.at > 1:
            raise ValueError(f"`at` is a share of the file, 1 at most, not {self.at:g}")
        path = PurePosixPath(self.path)
        if not path.parts or path.is_absolute() or ".." in path.parts:
            raise ValueError(f"`path` is a glob below the target's data, not {self.path!r}")

    def selectors(self) -> tuple[Selector, ...]:
        return ()

    @asynccontextmanager
    async def inject(self, target: Files, *hit: Selection) -> AsyncIterator[Landing]:
        # To its end, even when cancelled: what was damaged must be told.
        files = await anyio.to_thread.run_sync(damage, target.data_root(), self.path, self.mode, self.at)
        yield Landing({"mode": self.mode, "files": files})


def damage(root: Path, pattern: str, mode: Mode, at: float = 0.5) -> list[JSON]:
    """Damage every file that matches, in place; what was done to each. NotLanded where bytes stayed the same."""
    files = sorted(f for f in root.glob(pattern) if f.is_file() and f.resolve().is_relative_to(root.resolve()))
    if not files:
        raise NotLanded(f"no file matches {pattern} below {root}")
    return [_damage_file(file, mode, at) | {"file": str(file.relative_to(root))} for file in files]


def _damage_file(file: Path, mode: Mode, at: float) -> JSON:
    before, size = _digest(file), file.stat().st_size
    place = min(int(size * at), max(size - 1, 0))
    try:
        with file.open("r+b") as data:
            if mode == "truncate":
                data.truncate(place)
            else:
                data.seek(place)
                old = data.read(1 if mode == "flip" else -1)
                data.seek(place)
                data.write(bytes([old[0] ^ 1]) if mode == "flip" and old else bytes(len(old)))
    except PermissionError as error:
        raise Unsupported(f"no right to write {file}: {error}") from error
    after = _digest(file)
    if before == after:
        raise NotLanded(f"{mode} left {file} as it was ({size} bytes)")
    return {"offset": place, "size": size, "before": before, "after": after}


def _digest(file: Path) -> str:
    with file.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()
