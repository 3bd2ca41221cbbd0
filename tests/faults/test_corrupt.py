"""Damage to files at rest."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from chaos.errors import NotLanded
from chaos.faults.checkpoint.corrupt import Corrupt, Mode
from chaos.testing import FakeTarget

pytestmark = pytest.mark.anyio
CONTENT = bytes(range(1, 101))


@pytest.fixture
def store(tmp_path: Path) -> FakeTarget:
    for name in ("gen-1/shards/rank0", "gen-1/shards/rank1", "gen-2/shards/rank1"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(CONTENT)
    return FakeTarget(folder=tmp_path)


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
