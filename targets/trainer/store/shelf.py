"""Where the store keeps generations, behind one small interface: a folder here, a bucket in `bucket.py`.

Keys are paths below the shelf, such as `gen-000003/shards/__0_0.distcp`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path

from targets.trainer.store import durable


class Shelf(ABC):
    """Pieces under keys. What a method has returned from is durable. OSError when the storage is in trouble."""

    @abstractmethod
    def folders(self) -> list[str]:
        """The first parts of all keys."""

    @abstractmethod
    def names(self, folder: str) -> set[str]:
        """The keys below `folder`, without it."""

    @abstractmethod
    def has(self, key: str) -> bool: ...

    @abstractmethod
    def read(self, key: str) -> bytes:
        """The content; FileNotFoundError when there is none."""

    @abstractmethod
    def create(self, key: str, data: bytes, *, content: bool = True, name: bool = True) -> None:
        """A new piece, as a whole or not at all. What is not to be synced is a deliberate bug."""

    def replace(self, key: str, data: bytes, *, content: bool = True, name: bool = True) -> None:
        """The same, whatever there was."""
        self.create(key, data, content=content, name=name)

    def scribble(self, key: str, data: bytes) -> None:
        """What a deliberate bug does: write where everybody sees the half of it."""
        self.create(key, data)

    def open(self, folder: str) -> None:  # noqa: B027 - only a file system has to
        """Have pieces be created in `folder`."""

    @abstractmethod
    def remove(self, folder: str) -> None:
        """Take all of it away; nobody sees a part of it as a whole."""


class Folder(Shelf):
    """A folder of the file system."""

    def __init__(self, root: Path, disk: durable.Disk, *, reads_on: bool = True) -> None:
        """By a deliberate bug it does not read on where one read gave less than there is."""
        self._root, self._disk, self._reads_on = root, disk, reads_on
        disk.make_folder(root)
        durable.clear_removed(root)

    def folders(self) -> list[str]:
        return [path.name for path in self._root.iterdir()]

    def names(self, folder: str) -> set[str]:
        below = self._root / folder
        return {str(path.relative_to(below)) for path in below.rglob("*") if path.is_file()}

    def has(self, key: str) -> bool:
        return (self._root / key).exists()

    def read(self, key: str) -> bytes:
        path = self._root / key
        if self._reads_on:
            return path.read_bytes()
        with path.open("rb", buffering=0) as file:
            return file.read(path.stat().st_size)

    def create(self, key: str, data: bytes, *, content: bool = True, name: bool = True) -> None:
        self._disk.write(self._root / key, data, content=content, name=name)

    def scribble(self, key: str, data: bytes) -> None:
        (self._root / key).write_bytes(data)

    def open(self, folder: str) -> None:
        self._disk.make_folder(self._root / folder)

    def remove(self, folder: str) -> None:
        self._disk.remove_folder(self._root / folder)


__all__ = ["Folder", "Shelf"]
