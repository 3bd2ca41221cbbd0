"""What the faults of checkpoints share: which files are meant, and the proof of what became of them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import anyio.to_thread

from chaos.api import JSON, Checkpoints, Fault, Selector
from chaos.errors import NotLanded, Unsupported

Done = TypeVar("Done")


class FaultAtRest(Fault[Checkpoints], frozen=True, kw_only=True):
    """A deed on the files of a checkpoint, wherever they lie: done in an instant, and nothing undoes it."""

    instant = True

    def sections(self) -> tuple[str, ...]:
        return ("checkpoints",)

    def selectors(self) -> tuple[Selector, ...]:
        return ()


async def to_its_end(deed: Callable[[], Done]) -> Done:
    """In a thread, and to its end even when cancelled: what was damaged must be told."""
    return await anyio.to_thread.run_sync(deed)


@contextmanager
def allowed(what: str) -> Iterator[None]:
    """The rights to do that; Unsupported without."""
    try:
        yield
    except PermissionError as error:
        raise Unsupported(f"no right to {what}: {error}") from error


def digest(file: Path) -> str:
    """SHA-256 of the content."""
    with file.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()


def replace(file: Path, content: bytes, root: Path) -> JSON:
    """Other content in the same file, and what it was and is; NotLanded where that is the same."""
    before = digest(file)
    with allowed(f"write {file}"):
        file.write_bytes(content)
    after = digest(file)
    if before == after:
        raise NotLanded(f"{file} holds the same bytes as before ({len(content)})")
    return {"file": place(file, root), "size": len(content), "before": before, "after": after}


def remove(file: Path, root: Path) -> JSON:
    """Remove it; what it held. NotLanded when it is still there."""
    gone = {"file": place(file, root), "size": file.stat().st_size, "before": digest(file)}
    with allowed(f"remove {file}"):
        file.unlink()
    if file.exists():
        raise NotLanded(f"{file} was removed and is there again")
    return {**gone, "after": "no such file"}


def place(path: Path, root: Path) -> str:
    """A path as it is told: below the target's data."""
    return str(path.relative_to(root))
