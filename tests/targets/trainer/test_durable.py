"""What the store syncs before it answers, and what each of its defects leaves out."""

from __future__ import annotations

import os

import pytest

from .conftest import OpenStore

EVERYTHING = {
    "epoch.json", "begun.json", "__0_0.distcp", "decision.json", "manifest.json", "COMMITTED",
    "store/", "gen-000001/", "shards/",
}  # fmt: skip


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Names of files under which their content was put, and of folders, that were synced."""
    found: set[str] = set()
    real = os.fsync

    def fsync(fd: int) -> None:
        name = os.path.basename(os.readlink(f"/proc/self/fd/{fd}"))
        found.add(f"{name}/" if os.path.isdir(f"/proc/self/fd/{fd}") else name.removeprefix(".").removesuffix(".half"))
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    return found


@pytest.mark.parametrize(
    ("defect", "left_out"),
    [
        ("none", set()),
        ("no-shard-fsync", {"__0_0.distcp"}),
        ("ack-before-fsync", {"decision.json", "manifest.json", "COMMITTED"}),
        ("no-dir-fsync", {"gen-000001/", "shards/", "store/"}),
    ],
)
def test_a_commit_is_on_disk_before_it_is_answered(
    open_store: OpenStore, synced: set[str], defect: str, left_out: set[str]
) -> None:
    with open_store(defect=defect) as store:
        token = store.call("lease.acquire", holder="a", ttl=9.0, nonce="1")["epoch"]
        store.save(token, 1, shards=1)
        assert EVERYTHING - synced == left_out
