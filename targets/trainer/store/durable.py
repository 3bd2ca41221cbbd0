"""Files that are there after a power cut: content, then name, then folder, each synced before the next."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_folder(folder: Path) -> None:
    """Create `folder`, durable in its parent; the parent exists."""
    if not folder.exists():
        folder.mkdir()
        sync_folder(folder.parent)


def write(path: Path, data: bytes) -> None:
    """Replace `path` as a whole: whoever looks, sees the old content or the new one, never a part."""
    half = path.with_name(f".{path.name}.half")
    with open(half, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    half.rename(path)
    sync_folder(path.parent)


def remove_folder(folder: Path) -> None:
    """Remove `folder` with all in it; first its name, so that no half-removed folder is taken for a whole one."""
    doomed = folder.with_name(f".{folder.name}.removed")
    folder.rename(doomed)
    sync_folder(folder.parent)
    shutil.rmtree(doomed)


def clear_removed(folder: Path) -> None:
    """Finish what `remove_folder` had begun in `folder` when the process died."""
    for doomed in folder.glob(".*.removed"):
        shutil.rmtree(doomed)
