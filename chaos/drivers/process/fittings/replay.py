"""What a disk holds for certain, kept from the operations of those who write to it: for machines on which no file
system can really lose power.

The model: the bytes of a file are durable as of its last fsync or fdatasync, the entries of a folder as of its last
fsync; what was there at the start is durable, nothing else is. File systems keep more than that, and promise no more.
Not seen: O_SYNC, syncfs, msync, io_uring.
"""

from __future__ import annotations

import os
import shutil
import stat
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from chaos.api import JSON
from chaos.drivers.process.fit_disk import listing
from chaos.drivers.process.fittings.losses import losses
from chaos.drivers.process.fittings.tap.operation import Operation

MODEL = "bytes as of the last fsync of a file, entries as of the last fsync of a folder"


class Entry(NamedTuple):
    """A durable name in a folder: of which file or folder, with its mode; or where a link leads."""

    token: int
    mode: int
    link: str = ""


class Shadow:
    """An observer of the tap: the durable state of some folders, and the way back to it."""

    ops = frozenset({"fsync", "unlink", "rmdir", "rename"})

    def __init__(self, copies: Path) -> None:
        self._copies = copies
        self._disks: dict[Path, _Disk] = {}
        self._turn = threading.Lock()

    def keep(self, folder: Path) -> None:
        """From now on; what is in it is durable."""
        self._copies.mkdir(parents=True, exist_ok=True)
        self._disks[folder] = _Disk(folder, self._copies / str(len(self._disks)))

    def before(self, operation: Operation) -> int | None:
        with self._turn:
            for folder, disk in self._disks.items():
                if any(path == str(folder) or path.startswith(f"{folder}/") for path in operation.paths):
                    with suppress(FileNotFoundError, ProcessLookupError):  # the operation fails, or nobody is left
                        disk.take(operation)
        return None

    def cut(self, folder: Path) -> JSON:
        """Have the folder hold what is durable and nothing else; whoever wrote there has ended."""
        with self._turn:
            before = listing(str(folder))
            self._disks[folder].restore()
            return {"mechanism": "replay", "model": MODEL, **losses(before, listing(str(folder)))}


class _Disk:
    """Files and folders are known by tokens: the numbers of inodes are used again."""

    def __init__(self, root: Path, copies: Path) -> None:
        self._root, self._copies = root, copies
        self._next = 0
        self._settle()

    def _settle(self) -> None:
        """All that is there is durable."""
        shutil.rmtree(self._copies, ignore_errors=True)
        self._copies.mkdir()
        self._tokens: dict[tuple[int, int], int] = {}  # of what lives, by device and inode
        self._entries: dict[int, Mapping[str, Entry]] = {}  # durable names of a folder
        self._synced(str(self._root))
        for place, folders, files in os.walk(self._root):
            for name in (*folders, *files):
                if not os.path.islink(f"{place}/{name}"):
                    self._synced(f"{place}/{name}")

    def take(self, operation: Operation) -> None:
        if "fsync" in operation.ops:
            self._synced(f"/proc/{operation.tid}/fd/{operation.fd}")
        elif "rename" in operation.ops:
            old, new = (os.lstat(operation.reach(path)) for path in operation.paths)
            if (old.st_dev, old.st_ino) != (new.st_dev, new.st_ino):
                self._removed(new)
        else:
            self._removed(os.lstat(operation.reach()))

    def _token(self, about: os.stat_result) -> int:
        if (token := self._tokens.get((about.st_dev, about.st_ino))) is None:
            token = self._tokens[about.st_dev, about.st_ino] = self._next = self._next + 1
        return token

    def _removed(self, about: os.stat_result) -> None:
        """A name goes, for good once its folder is synced; who has the number after the last one is somebody else."""
        if stat.S_ISDIR(about.st_mode) or about.st_nlink == 1:
            self._tokens.pop((about.st_dev, about.st_ino), None)

    def _synced(self, place: str) -> None:
        about = os.stat(place)
        token = self._token(about)
        if stat.S_ISDIR(about.st_mode):
            self._entries[token] = {entry.name: self._entry(entry) for entry in os.scandir(place)}
        elif stat.S_ISREG(about.st_mode):
            half = self._copies / "half"
            shutil.copyfile(place, half)
            half.rename(self._copies / str(token))

    def _entry(self, entry: os.DirEntry[str]) -> Entry:
        about = entry.stat(follow_symlinks=False)
        return Entry(self._token(about), about.st_mode, os.readlink(entry.path) if entry.is_symlink() else "")

    def restore(self) -> None:
        root = self._token(os.stat(self._root))
        for entry in os.scandir(self._root):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path)
            else:
                os.unlink(entry.path)
        self._fill(self._root, root, {})
        self._settle()

    def _fill(self, folder: Path, token: int, made: dict[int, Path]) -> None:
        for name, entry in self._entries.get(token, {}).items():
            path = folder / name
            if stat.S_ISDIR(entry.mode):
                path.mkdir()
                self._fill(path, entry.token, made)
                path.chmod(stat.S_IMODE(entry.mode))
            elif entry.link:
                path.symlink_to(entry.link)
            elif entry.token in made:
                path.hardlink_to(made[entry.token])
            elif stat.S_ISREG(entry.mode):
                copy = self._copies / str(entry.token)
                if copy.exists():
                    shutil.copyfile(copy, path)
                else:
                    path.touch()
                path.chmod(stat.S_IMODE(entry.mode))
                made[entry.token] = path
