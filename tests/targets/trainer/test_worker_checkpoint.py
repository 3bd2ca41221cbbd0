"""The state of a rank through `torch.distributed.checkpoint` and a real store; one rank, in this process."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from targets.trainer import defects
from targets.trainer.settings import Settings
from targets.trainer.worker import group as groups
from targets.trainer.worker.checkpoint import Damaged, Restored, Vault
from targets.trainer.worker.data import Corpus
from targets.trainer.worker.group import Group
from targets.trainer.worker.model import CONTEXT
from targets.trainer.worker.state import PARTS, Fingerprint
from targets.trainer.worker.trainer import Trainer

from .conftest import LiveStore, OpenStore

pytestmark = pytest.mark.slow  # torch is imported


@pytest.fixture(scope="module")
def group() -> Iterator[Group]:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    yield groups.form(0, 1, ("127.0.0.1", port), address="127.0.0.1", timeout=20)
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return Corpus(Settings().dataset, CONTEXT)


class Rank:
    """A trainer with its vault."""

    def __init__(self, group: Group, corpus: Corpus, store: LiveStore, staging: Path, defect: str = "none") -> None:
        settings = Settings(defect=defect)
        self.store = store
        self.trainer = Trainer(group, corpus, settings)
        self.vault = Vault(store.caller, group, 1, staging, settings)

    def train(self, steps: int) -> list[float | None]:
        return [self.trainer.advance().loss for _ in range(steps)]

    def save(self, generation: int) -> Fingerprint:
        """Commit the present state as that generation."""
        step, world = self.trainer.step, 1
        self.store.call("generation.begin", token=1, generation=generation, step=step, world=world)
        shards = self.vault.save(self.trainer.state.snapshot(), generation, step)
        named = [{"rank": 0, **shard} for shard in shards]
        facts = {"generation": generation, "step": step, "epoch": 1, "world": world, "shards": named}
        self.store.call("generation.decide", token=1, generation=generation, manifest=facts)
        self.store.call("generation.commit", token=1, generation=generation)
        return self.trainer.state.fingerprint()

    def restore(self, generation: int) -> tuple[Restored, Fingerprint]:
        restored = self.vault.restore(self.trainer.state, generation)
        self.trainer.resume(restored)
        return restored, self.trainer.state.fingerprint()


@pytest.fixture
def lease(store: LiveStore) -> LiveStore:
    store.call("lease.acquire", holder="tester", ttl=60, nonce="test")
    return store


@pytest.fixture
def saved(group: Group, corpus: Corpus, lease: LiveStore, tmp_path: Path) -> Rank:
    """A rank that has trained 5 steps."""
    rank = Rank(group, corpus, lease, tmp_path / "saver")
    rank.trainer.state.initialise_optimizer()
    rank.train(5)
    return rank


def fresh(saved: Rank, group: Group, corpus: Corpus, tmp_path: Path, defect: str = "none") -> Rank:
    return Rank(group, corpus, saved.store, tmp_path / "restorer", defect)


def test_everything_comes_back_and_training_goes_on_bit_for_bit(
    saved: Rank, group: Group, corpus: Corpus, tmp_path: Path
) -> None:
    before = saved.save(1)
    expected = saved.train(4)
    other = fresh(saved, group, corpus, tmp_path)
    restored, after = other.restore(1)
    assert restored == Restored(1, 5, 1)
    assert after == before
    assert other.train(4) == expected


def test_a_canary_changes_neither_the_random_numbers_nor_the_course_of_training(saved: Rank) -> None:
    before = saved.trainer.state.fingerprint()
    assert saved.trainer.canary() == saved.trainer.canary()
    assert saved.trainer.state.fingerprint() == before


@pytest.mark.parametrize(
    ("defect", "part"),
    [
        (defects.RNG_NOT_RESTORED, "rng"),
        (defects.CURSOR_NOT_RESTORED, "data"),
        (defects.SCHEDULE_NOT_RESTORED, "schedule"),
        (defects.OPTIMIZER_EMPTY, "optimizer"),
    ],
)
def test_a_defect_of_restore_shows_in_the_digest_of_its_part_alone(
    defect: str, part: str, saved: Rank, group: Group, corpus: Corpus, tmp_path: Path
) -> None:
    before = saved.save(1)
    expected = saved.train(3)
    broken = fresh(saved, group, corpus, tmp_path, defect)
    _, after = broken.restore(1)
    assert [name for name in PARTS if after.state[name] != before.state[name]] == [part]
    assert (after.optimizer_entries == 0) == (part == "optimizer")
    assert broken.train(3) != expected


def test_mixed_generations_shows_as_another_generation_at_one_rank(
    saved: Rank, group: Group, corpus: Corpus, tmp_path: Path
) -> None:
    saved.save(1)
    saved.train(2)
    before = saved.save(2)
    restored, after = fresh(saved, group, corpus, tmp_path, defects.MIXED_GENERATIONS).restore(2)
    assert (restored.generation, restored.step) == (1, 7)
    assert after.state["data"] == before.state["data"]
    assert after.state["model"] != before.state["model"]


def test_a_snapshot_shares_no_memory_with_the_state_that_trains_on(saved: Rank) -> None:
    snapshot = saved.trainer.state.snapshot()
    copies = {name: tensor.clone() for name, tensor in snapshot.items()}
    saved.train(2)
    assert all(torch.equal(copies[name], snapshot[name]) for name in snapshot)
    assert any(not torch.equal(copies[name], live) for name, live in saved.trainer.state.tensors(["model"]).items())


def flip_a_bit(rank: Rank, folder: Path) -> None:
    """In the weights of a stored shard, where no container format notices it."""
    (shard,) = folder.glob("store/gen-*/shards/__0_0.distcp")
    data = bytearray(shard.read_bytes())
    weights = next(iter(rank.trainer.state.snapshot().values())).to_local()  # type: ignore[attr-defined]
    data[data.index(weights.numpy().tobytes())] ^= 1
    shard.write_bytes(data)


def test_a_flipped_bit_is_damage(saved: Rank, group: Group, corpus: Corpus, tmp_path: Path) -> None:
    saved.save(1)
    flip_a_bit(saved, tmp_path)
    with pytest.raises(Damaged, match="digest"):
        fresh(saved, group, corpus, tmp_path).restore(1)


def test_a_generation_that_the_store_does_not_offer_is_damage(
    saved: Rank, group: Group, corpus: Corpus, tmp_path: Path
) -> None:
    with pytest.raises(Damaged, match="manifest"):
        fresh(saved, group, corpus, tmp_path).restore(8)


@pytest.mark.parametrize("defect", ["none", "missing-shard-from-older"])
def test_a_missing_shard_is_damage_and_not_taken_from_elsewhere(
    saved: Rank, group: Group, corpus: Corpus, tmp_path: Path, defect: str
) -> None:
    saved.save(1)
    saved.train(1)
    saved.save(2)
    (tmp_path / "store/gen-000002/shards/__0_0.distcp").unlink()
    rank = fresh(saved, group, corpus, tmp_path, defect)
    if defect == "none":
        with pytest.raises(Damaged, match="incomplete"):
            rank.restore(2)
    else:
        rank.restore(2)  # the weights of generation 1 under the name of 2


def test_without_verification_a_flipped_bit_is_restored_in_silence(
    group: Group, corpus: Corpus, open_store: OpenStore, tmp_path: Path
) -> None:
    with open_store(defect=defects.DIGEST_NOT_VERIFIED) as store:
        store.call("lease.acquire", holder="tester", ttl=60, nonce="test")
        rank = Rank(group, corpus, store, tmp_path / "saver")
        rank.trainer.state.initialise_optimizer()
        rank.train(1)
        before = rank.save(1)
        flip_a_bit(rank, tmp_path)
        _, after = fresh(rank, group, corpus, tmp_path, defects.DIGEST_NOT_VERIFIED).restore(1)
        assert [name for name in PARTS if after.state[name] != before.state[name]] == ["model"]


def test_a_resize_draws_the_random_numbers_afresh_and_the_same_each_time(
    saved: Rank, group: Group, corpus: Corpus, tmp_path: Path
) -> None:
    state = saved.trainer.state
    state.seed_rng(step=20)
    first = state.fingerprint().state["rng"]
    state.seed_rng(step=20)
    assert state.fingerprint().state["rng"] == first
    state.seed_rng(step=40)
    assert state.fingerprint().state["rng"] != first


@pytest.mark.parametrize(("defect", "repeats"), [("none", False), (defects.DOUBLE_COUNT_AFTER_RESIZE, True)])
def test_only_the_defect_repeats_samples_after_a_resize(
    defect: str, repeats: bool, lease: LiveStore, group: Group, corpus: Corpus, tmp_path: Path
) -> None:
    trainer = Rank(group, corpus, lease, tmp_path, defect).trainer
    trainer.resume(Restored(1, 4, world=4))
    taken = [sample for _ in range(3) for sample in trainer.advance().samples]
    assert (len(set(taken)) < len(taken)) == repeats


def test_a_stale_worker_cannot_write_a_shard(saved: Rank, store: LiveStore) -> None:
    store.call("generation.begin", token=1, generation=1, step=5, world=1)
    store.call("epoch.advance", holder="tester", token=1, ttl=60, reason="test")
    with pytest.raises(Exception, match="stale-epoch"):
        saved.vault.save(saved.trainer.state.snapshot(), 1, 5)
    assert store.events.of("write.rejected", reason="stale-epoch", op="shard.put")


def test_the_interface_of_an_address_that_nobody_has_is_an_error() -> None:
    assert groups.interface_of("127.9.9.9") == "lo"
    with pytest.raises(OSError, match=r"no interface carries 203\.0\.113\.9"):
        groups.interface_of("203.0.113.9")
