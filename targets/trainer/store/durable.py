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


class Disk:
    """Writes to disk. Deliberate bugs: `names=False`, the folders are never synced; `insists`, a sync that failed is
    tried again: it succeeds, and the data is gone."""

    def __init__(self, *, names: bool = True, insists: bool = False) -> None:
        self._names, self._insists = names, insists

    def make_folder(self, folder: Path) -> None:
        """Create `folder`, durable in its parent; the parent exists."""
        if not folder.exists():
            folder.mkdir()
            self._sync_names(folder.parent)

    def write(self, path: Path, data: bytes, *, content: bool = True, name: bool = True) -> None:
        """Replace `path` as a whole: whoever looks, sees the old content or the new one, never a part. What is not
        asked to be synced is a deliberate bug."""
        half = path.with_name(f".{path.name}.half")
        with open(half, "wb") as file:
            file.write(data)
            file.flush()
            if content:
                self._sync(file.fileno())
        half.rename(path)
        if name:
            self._sync_names(path.parent)

    def remove_folder(self, folder: Path) -> None:
        """Remove `folder` with all in it; first its name, so that no half-removed folder is taken for a whole one."""
        doomed = folder.with_name(f".{folder.name}.removed")
        folder.rename(doomed)
        self._sync_names(folder.parent)
        shutil.rmtree(doomed)

    def _sync(self, file: int) -> None:
        try:
            os.fsync(file)
        except OSError:  # not a recovery path: a deliberate bug, and without it the error is the caller's
            if not self._insists:
                raise
            os.fsync(file)

    def _sync_names(self, folder: Path) -> None:
        if self._names:
            sync_folder(folder)


def clear_removed(folder: Path) -> None:
    """Finish what `remove_folder` had begun in `folder` when the process died."""
    for doomed in folder.glob(".*.removed"):
        shutil.rmtree(doomed)
