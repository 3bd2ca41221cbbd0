"""Reading committed generations from a folder that shows them late, or wrong."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from targets.trainer.wire import Refused, digest
from targets.trainer.worker.shared import Shared

MANIFEST = b'{"generation": 3, "step": 60, "shards": []}'


def commit(folder: Path, generation: int = 3, marker: bytes | None = None) -> None:
    place = folder / f"gen-{generation:06}"
    (place / "shards").mkdir(parents=True, exist_ok=True)
    (place / "shards" / "s").write_bytes(b"shard")
    (place / "manifest.json").write_bytes(MANIFEST)
    (place / "COMMITTED").write_bytes(digest(MANIFEST).encode() if marker is None else marker)


def test_what_is_in_sight_is_read(tmp_path: Path) -> None:
    commit(tmp_path)
    shared = Shared(tmp_path, 0.0)
    manifest = shared.read("manifest.get", {"generation": 3})
    assert manifest is not None
    assert manifest["manifest"]["step"] == 60
    shard = shared.read("shard.get", {"generation": 3, "name": "s"})
    assert shard is not None
    assert shard.body == b"shard"


@pytest.mark.parametrize("missing", ["COMMITTED", "manifest.json", "shards/s", "."])
def test_what_does_not_come_into_sight_in_time_is_nothing(tmp_path: Path, missing: str) -> None:
    commit(tmp_path)
    place = tmp_path / "gen-000003" / missing
    place.rename(tmp_path / "hidden")
    assert Shared(tmp_path, 0.0).read("shard.get", {"generation": 3, "name": "s"}) is None


def test_a_generation_that_comes_late_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked = threading.Event()

    def appear() -> None:
        looked.wait(5)
        commit(tmp_path)

    later = threading.Thread(target=appear)
    later.start()
    real: Callable[[Path], bytes] = Path.read_bytes

    def read_bytes(path: Path) -> bytes:
        try:
            return real(path)
        finally:
            looked.set()

    monkeypatch.setattr(Path, "read_bytes", read_bytes)
    assert Shared(tmp_path, 5.0).read("manifest.get", {"generation": 3}) is not None
    later.join()


def test_a_manifest_that_its_marker_does_not_mean_is_refused(tmp_path: Path) -> None:
    commit(tmp_path, marker=b"another digest")
    with pytest.raises(Refused) as caught:
        Shared(tmp_path, 0.0).read("manifest.get", {"generation": 3})
    assert caught.value.error == "digest"


def test_the_newest_is_the_newest_with_a_marker(tmp_path: Path) -> None:
    shared = Shared(tmp_path / "not there", 0.0)
    assert shared.newest() == 0
    shared = Shared(tmp_path, 0.0)
    for generation in (2, 3, 4):
        commit(tmp_path, generation)
    (tmp_path / "gen-000004" / "COMMITTED").unlink()
    assert shared.newest() == 3
