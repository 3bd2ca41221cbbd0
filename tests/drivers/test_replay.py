"""The durable state that is kept beside a folder, and what becomes of the folder when the power goes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from chaos.drivers.process.fittings.replay import Shadow


class Writer:
    """Does to a folder what programs do, and tells the shadow before it does."""

    def __init__(self, folder: Path, shadow: Shadow) -> None:
        self.folder, self.shadow = folder, shadow

    def tell(self, op: str, *names: str, fd: int | None = None) -> None:
        paths = [str(self.folder / name) for name in names]
        operation: Any = SimpleNamespace(
            ops=(op,), paths=paths, path=paths[-1], tid=os.getpid(), fd=fd, reach=lambda path=paths[-1]: path
        )
        assert self.shadow.before(operation) is None

    def write(self, name: str, content: bytes) -> None:
        (self.folder / name).write_bytes(content)

    def sync(self, name: str = ".") -> None:
        handle = os.open(self.folder / name, os.O_RDONLY)
        self.tell("fsync", name, fd=handle)
        os.close(handle)

    def rename(self, old: str, new: str) -> None:
        self.tell("rename", old, new)
        (self.folder / old).rename(self.folder / new)

    def unlink(self, name: str) -> None:
        self.tell("unlink", name)
        (self.folder / name).unlink()

    def state(self) -> dict[str, bytes]:
        return {str(p.relative_to(self.folder)): p.read_bytes() for p in self.folder.rglob("*") if p.is_file()}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Writer]:
    folder = tmp_path / "disk"
    folder.mkdir()
    (folder / "before").write_bytes(b"there at the start")
    shadow = Shadow(tmp_path / "copies")
    shadow.keep(folder)
    yield Writer(folder, shadow)
    assert "before" in os.listdir(folder)


CASES: dict[str, tuple[tuple[str, ...], dict[str, bytes]]] = {
    "nothing": ((), {}),
    "content synced": (("f",), {}),
    "name synced": ((".",), {"f": b""}),
    "content, then name": (("f", "."), {"f": b"new"}),
    "name, then content": ((".", "f"), {"f": b"new"}),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_kept_of_a_new_file(disk: Writer, case: str) -> None:
    synced, kept = CASES[case]
    disk.write("f", b"new")
    for name in synced:
        disk.sync(name)
    disk.shadow.cut(disk.folder)
    assert disk.state() == {"before": b"there at the start"} | kept


def test_an_unsynced_rename_leaves_the_old_content_and_the_old_name(disk: Writer) -> None:
    disk.write("f", b"old")
    disk.sync("f")
    disk.sync()
    disk.write("f.half", b"new")
    disk.sync("f.half")
    disk.rename("f.half", "f")
    disk.shadow.cut(disk.folder)
    assert disk.state() == {"before": b"there at the start", "f": b"old"}


def test_an_unsynced_removal_is_undone_and_its_number_may_be_used_again(disk: Writer) -> None:
    disk.write("f", b"old")
    disk.sync("f")
    disk.sync()
    number = (disk.folder / "f").stat().st_ino
    disk.unlink("f")
    others = 0
    while others < 50:  # most file systems give the number to one of the next
        disk.write(f"g{others}", b"unsynced")
        others += 1
        if (disk.folder / f"g{others - 1}").stat().st_ino == number:
            break
    disk.shadow.cut(disk.folder)
    assert disk.state() == {"before": b"there at the start", "f": b"old"}


def test_a_new_file_with_a_used_number_has_not_the_content_of_the_old_one(disk: Writer) -> None:
    disk.write("f", b"old")
    disk.sync("f")
    disk.unlink("f")
    disk.write("g", b"never synced")
    disk.sync()
    disk.shadow.cut(disk.folder)
    assert disk.state() == {"before": b"there at the start", "g": b""}


def test_a_folder_keeps_what_was_synced_in_it(disk: Writer) -> None:
    (disk.folder / "sub").mkdir()
    disk.sync()
    disk.write("sub/f", b"new")
    disk.sync("sub/f")
    disk.sync("sub")
    disk.write("sub/g", b"new")
    (disk.folder / "late").mkdir()
    found = disk.shadow.cut(disk.folder)
    assert disk.state() == {"before": b"there at the start", "sub/f": b"new"}
    assert not (disk.folder / "late").exists()
    assert {entry["path"] for entry in found["lost"]} == {"late/", "sub/g"}
    assert found["mechanism"] == "replay"
    assert "as of the last fsync" in found["model"]


def test_what_came_through_a_power_cut_is_durable_for_the_next_one(disk: Writer) -> None:
    disk.write("f", b"new")
    disk.sync("f")
    disk.sync()
    os.link(disk.folder / "f", disk.folder / "hard")
    (disk.folder / "soft").symlink_to("f")
    disk.sync()
    disk.shadow.cut(disk.folder)
    disk.write("g", b"lost")
    found = disk.shadow.cut(disk.folder)
    assert {entry["path"] for entry in found["lost"]} == {"g"}
    assert os.readlink(disk.folder / "soft") == "f"
    assert (disk.folder / "hard").stat().st_ino == (disk.folder / "f").stat().st_ino


def test_what_happens_elsewhere_is_none_of_its_business(disk: Writer, tmp_path: Path) -> None:
    other = Writer(tmp_path, disk.shadow)
    other.write("f", b"new")
    other.tell("unlink", "f")
    disk.tell("unlink", "never-there")
    assert disk.shadow.cut(disk.folder)["nothing_unsynced"]
