"""Damage to checkpoints at rest, on real files."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec
import pytest

from chaos.errors import NotLanded, Unsupported
from chaos.faults.checkpoint.corrupt import Corrupt, Mode
from chaos.faults.checkpoint.delete import Delete
from chaos.faults.checkpoint.plant import Marker, Plant
from chaos.faults.checkpoint.rewind import Rewind
from chaos.faults.checkpoint.swap import Swap
from chaos.faults.checkpoint.unmark import Unmark
from chaos.layout import Layout
from chaos.testing import FakeTarget

from .conftest import saved

pytestmark = pytest.mark.anyio
CONTENT = bytes(range(1, 101))


@pytest.fixture
def store(tmp_path: Path) -> FakeTarget:
    for name in ("gen-1/shards/rank0", "gen-1/shards/rank1", "gen-2/shards/rank1"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(CONTENT)
    return FakeTarget(folder=tmp_path)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return saved(tmp_path)


@pytest.fixture
def three(root: Path) -> FakeTarget:
    return FakeTarget(folder=root)


def digests(root: Path) -> dict[str, str]:
    files = (f for f in root.rglob("*") if f.is_file())
    return {str(f.relative_to(root)): hashlib.sha256(f.read_bytes()).hexdigest() for f in files}


def changed(before: dict[str, str], after: dict[str, str]) -> set[str]:
    return {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}


# --- corrupt


@pytest.mark.parametrize(
    ("mode", "after"),
    [
        ("flip", CONTENT[:50] + bytes([CONTENT[50] ^ 1]) + CONTENT[51:]),
        ("truncate", CONTENT[:50]),
        ("zero", CONTENT[:50] + bytes(50)),
    ],
)
async def test_matching_files_are_damaged_and_others_are_not(store: FakeTarget, mode: Mode, after: bytes) -> None:
    fault = Corrupt(path="gen-1/shards/*rank1*", mode=mode)
    async with fault.inject(store) as landing:
        (file,) = landing.evidence["files"]
    assert file["file"] == "gen-1/shards/rank1"
    assert file["before"] != file["after"]
    root = store.data_root()
    assert (root / "gen-1/shards/rank1").read_bytes() == after
    assert (root / "gen-1/shards/rank0").read_bytes() == CONTENT
    assert (root / "gen-2/shards/rank1").read_bytes() == CONTENT


async def test_no_matching_file_is_no_fault(store: FakeTarget) -> None:
    with pytest.raises(NotLanded, match="no file matches gen-9"):
        async with Corrupt(path="gen-9/*").inject(store):
            pass


@pytest.mark.parametrize("mode", ["flip", "truncate", "zero"])
async def test_a_file_that_stays_the_same_is_no_fault(store: FakeTarget, mode: Mode) -> None:
    (store.data_root() / "empty").touch()
    with pytest.raises(NotLanded, match=f"{mode} left"):
        async with Corrupt(path="empty", mode=mode).inject(store):
            pass


async def test_a_link_out_of_the_data_is_not_followed(
    store: FakeTarget, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside") / "file"
    outside.write_bytes(CONTENT)
    (store.data_root() / "link").symlink_to(outside)
    with pytest.raises(NotLanded, match="no file matches"):
        async with Corrupt(path="link").inject(store):
            pass
    assert outside.read_bytes() == CONTENT


@pytest.mark.parametrize("path", ["/etc/passwd", "../run.json", "a/../../b", ""])
def test_a_path_outside_of_the_data_is_refused_when_it_is_read(path: str) -> None:
    with pytest.raises(msgspec.ValidationError, match="below the target's data"):
        msgspec.convert({"path": path}, Corrupt)


@pytest.mark.parametrize(
    ("fault", "hit"),
    [
        (Corrupt(), {"gen-003/shards/rank0", "gen-003/shards/rank1"}),
        (Corrupt(generation="newest-1", shard="rank1"), {"gen-002/shards/rank1"}),
        (Corrupt(generation=1, what="manifest"), {"gen-001/manifest.json"}),
        (Corrupt(generation="newest-2", what="marker", mode="zero"), {"gen-001/COMMITTED"}),
    ],
)
async def test_a_generation_and_a_part_say_which_files(
    three: FakeTarget, root: Path, fault: Corrupt, hit: set[str]
) -> None:
    before = digests(root)
    async with fault.inject(three) as landing:
        assert {f["file"] for f in landing.evidence["files"]} == hit
    assert changed(before, digests(root)) == hit


async def test_the_newest_is_the_newest_that_is_committed(three: FakeTarget, root: Path) -> None:
    (root / "gen-003/COMMITTED").unlink()
    async with Corrupt().inject(three) as landing:
        assert landing.evidence["generation"] == 2
    async with Corrupt(generation=3).inject(three) as landing:
        assert landing.evidence["generation"] == 3


@pytest.mark.parametrize("which", ["newest-3", 9])
async def test_a_generation_that_is_not_there_is_no_fault(three: FakeTarget, which: int | str) -> None:
    with pytest.raises(NotLanded, match=rf"no generation `{which}` .* \(there: 1, 2, 3\)"):
        async with Corrupt(generation=which).inject(three):
            pass


# --- the others


async def test_a_swapped_shard_holds_the_bytes_of_the_older_one(three: FakeTarget, root: Path) -> None:
    before = digests(root)
    async with Swap(shard="rank1").inject(three) as landing:
        (file,) = landing.evidence["files"]
    after = digests(root)
    assert changed(before, after) == {"gen-003/shards/rank1"}
    assert after["gen-003/shards/rank1"] == before["gen-002/shards/rank1"] == file["after"]


async def test_a_swap_of_equal_shards_is_no_fault(three: FakeTarget, root: Path) -> None:
    (root / "gen-002/shards/rank1").write_bytes((root / "gen-003/shards/rank1").read_bytes())
    with pytest.raises(NotLanded, match="the same bytes as before"):
        async with Swap(shard="rank1").inject(three):
            pass


async def test_a_swap_needs_an_older_generation_that_has_the_shard(three: FakeTarget, root: Path) -> None:
    with pytest.raises(NotLanded, match="3 is not older than 2"):
        async with Swap(generation="newest-1", older="newest").inject(three):
            pass
    (root / "gen-002/shards/rank1").unlink()
    with pytest.raises(NotLanded, match="2 has no shards/rank1"):
        async with Swap(shard="rank1").inject(three):
            pass


@pytest.mark.parametrize(
    ("fault", "hit"),
    [
        (Delete(shard="rank0"), "gen-003/shards/rank0"),
        (Delete(what="manifest", generation=2), "gen-002/manifest.json"),
        (Unmark(), "gen-003/COMMITTED"),
    ],
)
async def test_what_is_removed_is_gone_and_nothing_else_is(
    three: FakeTarget, root: Path, fault: Delete | Unmark, hit: str
) -> None:
    before = digests(root)
    async with fault.inject(three) as landing:
        (file,) = landing.evidence["files"]
    assert (file["file"], file["before"], file["after"]) == (hit, before[hit], "no such file")
    assert before.keys() - digests(root).keys() == changed(before, digests(root)) == {hit}


async def test_what_is_not_there_cannot_be_removed(three: FakeTarget) -> None:
    for fault in (Delete(shard="rank7"), Delete(generation=9)):
        with pytest.raises(NotLanded):
            async with fault.inject(three):
                pass


@pytest.mark.parametrize(("marker", "content"), [("none", None), ("empty", b""), ("copied", b"yes")])
async def test_a_planted_folder_looks_like_the_newest(
    three: FakeTarget, root: Path, marker: Marker, content: bytes | None
) -> None:
    before = digests(root)
    async with Plant(marker=marker, ahead=2).inject(three) as landing:
        assert (landing.evidence["folder"], landing.evidence["copy-of"]) == ("gen-005", 3)
        planted = {f["file"]: f["digest"] for f in landing.evidence["files"]}
    after = digests(root)
    assert planted == {name: after[name] for name in changed(before, after)}
    assert after["gen-005/shards/rank0"] == before["gen-003/shards/rank0"]
    there = root / "gen-005/COMMITTED"
    assert (there.read_bytes() if there.exists() else None) == content


async def test_a_pointer_is_rolled_back_in_its_own_words(three: FakeTarget, root: Path) -> None:
    before = digests(root)
    async with Rewind(to="newest-2").inject(three) as landing:
        assert (landing.evidence["said"], landing.evidence["says"]) == ("gen-003", "gen-001")
    assert (root / "latest").read_text() == "gen-001\n"
    assert changed(before, digests(root)) == {"latest"}


@pytest.mark.parametrize(("text", "reason"), [("gen-001", "not newer than 2"), ("none", "names no generation")])
async def test_a_pointer_that_is_not_ahead_cannot_be_rolled_back(
    three: FakeTarget, root: Path, text: str, reason: str
) -> None:
    (root / "latest").write_text(text)
    with pytest.raises(NotLanded, match=reason):
        async with Rewind().inject(three):
            pass
    (root / "latest").unlink()
    with pytest.raises(NotLanded, match="there is no"):
        async with Rewind().inject(three):
            pass


async def test_what_the_target_does_not_declare_is_refused(three: FakeTarget) -> None:
    three.checkpoints = Layout(generation="gen-{number}")
    for fault, part in ((Rewind(), "latest"), (Unmark(), "marker"), (Delete(what="manifest"), "manifest")):
        with pytest.raises(Unsupported, match=f"declares no `{part}`"):
            async with fault.inject(three):
                pass
