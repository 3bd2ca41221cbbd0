"""Which generation a replica serves, and which it never does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from targets.serving import publish as publisher
from targets.serving.models import manifest
from targets.serving.replica.loading import Damaged, Loader
from targets.serving.settings import Settings

pytestmark = pytest.mark.slow


class Events(list[tuple[str, dict[str, Any]]]):
    def __call__(self, kind: str, /, **data: Any) -> None:
        self.append((kind, data))


@pytest.fixture
def models(tmp_path: Path) -> Path:
    publisher.publish_missing(tmp_path, Settings(generations=2), Events())
    return tmp_path


def loader(models: Path, events: Events | None = None, **settings: Any) -> Loader:
    return Loader(models, Settings(**settings), "replica-0", events if events is not None else Events())


def digest_of(models: Path, generation: int) -> str:
    return (manifest.folder(models, generation) / manifest.MARKER).read_text()


def damage(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-7] ^= 0x40
    path.write_bytes(data)


def unmark(models: Path, generation: int) -> None:
    (manifest.folder(models, generation) / manifest.MARKER).unlink()


def test_the_newest_committed_one_is_served_and_its_digest_is_the_published_one(models: Path) -> None:
    loaded = loader(models).load(0)
    assert loaded is not None
    assert (loaded.generation, loaded.digest) == (2, digest_of(models, 2))
    assert loaded.whole()


def test_an_uncommitted_one_is_not_unless_by_the_defect(models: Path) -> None:
    unmark(models, 2)
    loaded = loader(models).load(0)
    assert loaded is not None
    assert loaded.generation == 1
    loaded = loader(models, defect="restore-uncommitted").load(0)
    assert loaded is not None
    assert loaded.generation == 2


@pytest.mark.parametrize("name", ["primary.safetensors", "generator.safetensors", "static.json", "manifest.json"])
def test_a_damaged_one_is_told_of_once_and_the_one_before_it_is_served(models: Path, name: str) -> None:
    damage(manifest.folder(models, 2) / name)
    events = Events()
    mine = loader(models, events)
    for _ in range(2):
        loaded = mine.load(0)
        assert loaded is not None
        assert loaded.generation == 1
    assert [data["generation"] for kind, data in events if kind == "checkpoint.damaged"] == [2]


def test_a_shard_that_is_missing_or_of_another_generation_is_damage(models: Path) -> None:
    new, old = (manifest.folder(models, number) / "secondary.safetensors" for number in (2, 1))
    new.write_bytes(old.read_bytes())
    with pytest.raises(Damaged):
        loader(models).read(2)
    new.unlink()
    with pytest.raises(Damaged):
        loader(models).read(2)


def test_nothing_older_than_what_was_served_is_served_again(models: Path) -> None:
    damage(manifest.folder(models, 2) / "primary.safetensors")
    assert loader(models).load(floor=2) is None


def test_unchecked_bytes_do_not_have_the_digest_of_the_commit(models: Path) -> None:
    damage(manifest.folder(models, 2) / "primary.safetensors")
    loaded = loader(models, defect="digest-not-checked").load(0)
    assert loaded is not None
    assert loaded.generation == 2
    assert loaded.digest != digest_of(models, 2)


def test_going_back_is_seen_after_a_restart_only(models: Path) -> None:
    unmark(models, 2)
    mine = loader(models, defect="generation-goes-back")
    assert mine.candidates(0) == [1]
    publisher.publish(models, Settings(), 2, Events())
    assert mine.candidates(0)[0] == 2
    assert loader(models, defect="generation-goes-back").candidates(0) == [1]
