"""The store over TCP: epochs, leases, fencing, two-phase commit, digests, retention."""

from __future__ import annotations

import shutil
import time
import uuid
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from chaos.faults.checkpoint.corrupt import damage
from targets.trainer.store.ledger import Ledger
from targets.trainer.wire import Refused, digest

from .conftest import LiveStore, OpenStore
from .recorded import Events

SHARDS = "store/gen-000001/shards/*"


def lead(store: LiveStore, holder: str = "coordinator-0", ttl: float = 10.0) -> int:
    epoch: int = store.call("lease.acquire", holder=holder, ttl=ttl, nonce=uuid.uuid4().hex)["epoch"]
    return epoch


def refusal(store: LiveStore, op: str, **fields: Any) -> str:
    with pytest.raises(Refused) as caught:
        store.call(op, **fields)
    return caught.value.error


def test_epochs_grow_and_outlive_the_store(open_store: OpenStore) -> None:
    with open_store() as store:
        assert lead(store) == 1
        assert store.call("epoch.advance", token=1, holder="coordinator-0", ttl=0.05, reason="x")["epoch"] == 2
    with open_store() as store:
        time.sleep(0.06)  # what is left of the lease is unknown: all of it is granted again
        assert lead(store, "coordinator-1") == 3
        assert store.events.of("epoch.issued", epoch=3, holder="coordinator-1")


def test_a_lease_is_held_until_it_runs_out(tmp_path: Path) -> None:
    now, events = [0.0], Events()
    ledger = Ledger(tmp_path, events, clock=lambda: now[0])
    assert ledger.acquire("a", 2.0, "1")["epoch"] == 1
    now[0] = 1.5
    ledger.renew("a", 1, 2.0)
    now[0] = 3.4
    with pytest.raises(Refused, match="held"):
        ledger.acquire("b", 2.0, "2")
    now[0] = 3.6
    for _ in range(2):  # a repeated try gets the same answer
        assert ledger.acquire("b", 2.0, "2") == {"epoch": 2, "ttl": 2.0, "previous": "a"}
    assert events.of("lease.expired", holder="a")
    with pytest.raises(Refused, match="stale-epoch"):
        ledger.renew("a", 1, 2.0)
    with pytest.raises(Refused, match="held"):
        ledger.acquire("a", 2.0, "1")  # an old request that is repeated late


def test_a_repeated_advance_issues_one_epoch(store: LiveStore) -> None:
    lead(store)
    first, again = (store.call("epoch.advance", token=1, holder="coordinator-0", ttl=9, reason="r") for _ in range(2))
    assert first["epoch"] == again["epoch"] == 2
    assert refusal(store, "epoch.advance", token=1, holder="coordinator-1", ttl=9, reason="r") == "stale-epoch"


def test_every_change_with_an_old_token_is_refused_and_recorded(store: LiveStore) -> None:
    old = lead(store)
    store.save(old, 1, upto="decide")
    store.call("epoch.advance", token=old, holder="coordinator-0", ttl=9, reason="r")
    calls: list[tuple[str, dict[str, Any]]] = [
        ("generation.begin", {"generation": 2, "step": 40, "world": 2}),
        ("shard.put", {"generation": 1, "name": "x", "step": 20, "rank": 0, "length": 0, "digest": ""}),
        ("generation.decide", {"generation": 1, "manifest": {}}),
        ("generation.commit", {"generation": 1}),
        ("generation.abort", {"generation": 1, "reason": "r"}),
        ("generation.damaged", {"generation": 1, "name": "x", "reason": "r"}),
        ("job.finish", {"outcome": "completed"}),
    ]
    for op, fields in calls:
        assert refusal(store, op, token=old, **fields) == "stale-epoch"
        (rejected,) = store.events.of("write.rejected", op=op)
        assert (rejected["token"], rejected["highest"], rejected["reason"]) == (old, old + 1, "stale-epoch")
    assert store.states() == {1: "decided"}


def test_without_fencing_an_old_token_writes(open_store: OpenStore) -> None:
    with open_store(defect="no-fencing") as store:
        old = lead(store)
        store.save(old, 1, upto="decide")
        store.call("epoch.advance", token=old, holder="coordinator-0", ttl=9, reason="r")
        store.call("generation.commit", token=old, generation=1)
        (accepted,) = store.events.of("write.accepted", op="generation.commit")
        assert accepted["token"] < accepted["highest"]


@pytest.mark.parametrize(
    ("defect", "open_op"), [("no-fencing-on-commit", "generation.commit"), ("no-fencing-on-shards", "shard.put")]
)
def test_a_hole_in_the_fence_lets_one_operation_through(open_store: OpenStore, defect: str, open_op: str) -> None:
    with open_store(defect=defect) as store:
        old = lead(store)
        store.save(old, 1, upto="decide")
        store.call("epoch.advance", token=old, holder="coordinator-0", ttl=9, reason="r")
        body = b"shard 0 of 1, long enough to rot"
        facts = {"name": "__0_0.distcp", "step": 20, "rank": 0, "length": len(body), "digest": digest(body)}
        calls: dict[str, dict[str, Any]] = {"shard.put": facts, "generation.commit": {}}
        for op, fields in calls.items():
            said = partial(store.call, op, body if op == "shard.put" else b"", token=old, generation=1, **fields)
            if op == open_op:
                said()
            else:
                with pytest.raises(Refused, match="stale-epoch"):
                    said()
        (accepted,) = [e for e in store.events.of("write.accepted") if e["token"] < e["highest"]]
        assert accepted["op"] == open_op


@pytest.mark.parametrize("defect", ["none", "fence-at-connect"])
def test_an_old_connection_is_no_token(open_store: OpenStore, defect: str) -> None:
    with open_store(defect=defect) as store:
        old = lead(store)
        store.call("epoch.advance", token=old, holder="coordinator-0", ttl=9, reason="r")
        call = partial(store.call, "generation.begin", token=old, generation=1, step=20, world=2)
        if defect == "none":
            with pytest.raises(Refused, match="stale-epoch"):
                call()
        else:
            call()
        store.caller.close()  # the next one is a connection's first
        with pytest.raises(Refused, match="stale-epoch"):
            store.call("generation.begin", token=old, generation=2, step=40, world=2)


def test_a_commit_needs_a_decision_and_a_decision_every_shard(store: LiveStore) -> None:
    token = lead(store)
    manifest = store.save(token, 1, upto="shards")
    assert refusal(store, "generation.commit", token=token, generation=1) == "incomplete"
    more = {**manifest, "shards": [*manifest["shards"], {"name": "c", "rank": 2, "length": 1, "digest": "00"}]}
    assert refusal(store, "generation.decide", token=token, generation=1, manifest=more) == "incomplete"
    store.call("generation.decide", token=token, generation=1, manifest=manifest)
    assert refusal(store, "manifest.get", generation=1) == "incomplete"
    assert refusal(store, "generation.abort", token=token, generation=1, reason="late") == "decided"
    for _ in range(2):
        store.call("generation.commit", token=token, generation=1)
    assert len(store.events.of("checkpoint.committed", generation=1)) == 1
    assert store.call("manifest.get", generation=1)["manifest"]["step"] == 20


def test_shards_are_durable_before_the_marker_is(store: LiveStore) -> None:
    store.save(lead(store), 1)
    kinds = [kind for kind, _ in store.events]
    assert kinds.index("checkpoint.committed") > max(i for i, k in enumerate(kinds) if k == "checkpoint.shard_written")


def test_wrong_length_or_digest_is_refused(store: LiveStore) -> None:
    token = lead(store)
    store.call("generation.begin", token=token, generation=1, step=20, world=1)
    for wrong, error in (({"length": 9}, "length"), ({"digest": "00"}, "digest")):
        with pytest.raises(Refused, match=error):
            store.put(token, 1, "a", b"abc", **wrong)
    assert not store.events.of("checkpoint.shard_written")


def test_shards_are_immutable_but_may_be_sent_again(store: LiveStore) -> None:
    token = lead(store)
    store.save(token, 1, upto="decide")
    store.put(token, 1, "__0_0.distcp", b"shard 0 of 1, long enough to rot")
    assert len(store.events.of("checkpoint.shard_written", name="__0_0.distcp")) == 1
    for name in ("__0_0.distcp", "one-more"):
        with pytest.raises(Refused, match="immutable"):
            store.put(token, 1, name, b"other")


def test_an_aborted_or_unknown_generation_takes_no_shards(store: LiveStore) -> None:
    token = lead(store)
    store.save(token, 1, upto="shards")
    store.call("generation.abort", token=token, generation=1, reason="r")
    assert store.states() == {}
    assert store.call("generation.list")["last"] == 1
    for generation, name in ((1, "late"), (7, "x"), (1, "../escape")):
        with pytest.raises(Refused, match="unknown"):
            store.put(token, generation, name, b"late")


def test_a_flipped_bit_is_found_at_the_read(store: LiveStore, tmp_path: Path) -> None:
    token = lead(store)
    store.save(token, 1)
    damage(tmp_path, SHARDS, "flip")
    assert refusal(store, "shard.get", generation=1, name="__0_0.distcp") == "digest"
    for _ in range(2):
        store.call("generation.damaged", token=token, generation=1, name="__0_0.distcp", reason="digest")
    assert len(store.events.of("checkpoint.damaged")) == 1
    assert store.call("generation.list")["generations"][0]["damaged"] is True


def test_without_digests_a_flipped_bit_is_served(open_store: OpenStore, tmp_path: Path) -> None:
    with open_store(defect="digest-not-verified") as store:
        manifest = store.save(lead(store), 1)
        damage(tmp_path, SHARDS, "flip")
        body = store.call("shard.get", generation=1, name="__0_0.distcp").body
        assert len(body) == manifest["shards"][0]["length"]
        assert body != b"shard 0 of 1, long enough to rot"


def test_retention_keeps_the_newest_good_ones(open_store: OpenStore) -> None:
    with open_store(keep=2) as store:
        token = lead(store)
        store.save(token, 1)
        store.save(token, 2)
        store.call("generation.damaged", token=token, generation=2, name="x", reason="digest")
        store.save(token, 3, upto="shards")
        store.save(token, 4)
        assert store.states() == {1: "committed", 2: "committed", 3: "open", 4: "committed"}
        store.save(token, 5)
        assert store.states() == {4: "committed", 5: "committed"}
        assert [e["generation"] for e in store.events.of("checkpoint.removed")] == [1, 2, 3]


def test_retention_by_count_removes_the_last_good_one(open_store: OpenStore) -> None:
    with open_store(defect="retention-by-count") as store:
        token = lead(store)
        store.save(token, 1)
        store.call("generation.begin", token=token, generation=2, step=40, world=2)
        assert store.states() == {2: "open"}


def test_the_pointer_names_the_newest_that_was_committed(store: LiveStore, tmp_path: Path) -> None:
    token = lead(store)
    assert store.call("generation.list")["latest"] == ""
    store.save(token, 1)
    store.save(token, 2, upto="decide")
    assert (tmp_path / "store/latest").read_text() == "1\n"
    store.call("generation.commit", token=token, generation=2)
    assert store.call("generation.list")["latest"] == "2"


def copy_of(tmp_path: Path, generation: int, number: int, *without: str) -> None:
    planted = tmp_path / f"store/gen-{number:06}"
    shutil.copytree(tmp_path / f"store/gen-{generation:06}", planted)
    for name in without:
        (planted / name).unlink()


def test_a_look_alike_is_no_generation(open_store: OpenStore, tmp_path: Path) -> None:
    with open_store(keep=1) as store:
        token = lead(store)
        store.save(token, 1)
        copy_of(tmp_path, 1, 2)
        copy_of(tmp_path, 1, 3, "COMMITTED")
        assert store.states() == {1: "committed", 2: "committed", 3: "decided"}
        assert store.call("generation.list")["last"] == 3  # the next one must not write into it
        assert refusal(store, "manifest.get", generation=2) == "format"
        assert refusal(store, "shard.get", generation=2, name="__0_0.distcp") == "format"
        assert refusal(store, "generation.commit", token=token, generation=3) == "format"
        store.save(token, 4)
        assert [e["generation"] for e in store.events.of("checkpoint.removed")] == [1, 2, 3]


def test_a_look_alike_takes_nobodys_place_in_retention(open_store: OpenStore, tmp_path: Path) -> None:
    with open_store(keep=2) as store:
        token = lead(store)
        store.save(token, 1)
        copy_of(tmp_path, 1, 2)
        store.save(token, 3)
        assert 1 in store.states()


def test_a_look_alike_is_served_by_the_defect(open_store: OpenStore, tmp_path: Path) -> None:
    with open_store(defect="look-alike-believed") as store:
        store.save(lead(store), 1)
        copy_of(tmp_path, 1, 2)
        assert store.call("manifest.get", generation=2)["manifest"]["generation"] == 2


def test_a_generation_that_lost_its_marker_is_committed_again_as_it_was(store: LiveStore, tmp_path: Path) -> None:
    token = lead(store)
    store.save(token, 1)
    (tmp_path / "store/gen-000001/COMMITTED").unlink()
    assert refusal(store, "manifest.get", generation=1) == "incomplete"
    assert refusal(store, "generation.abort", token=token, generation=1, reason="x") == "decided"
    store.call("generation.commit", token=token, generation=1)
    first, again = store.events.of("checkpoint.committed")
    assert first == again


def test_a_generation_that_lost_its_marker_is_removed_by_the_defect(open_store: OpenStore, tmp_path: Path) -> None:
    with open_store(defect="unmarked-is-removed") as store:
        token = lead(store)
        store.save(token, 1)
        assert refusal(store, "generation.abort", token=token, generation=1, reason="x") == "decided"
        (tmp_path / "store/gen-000001/COMMITTED").unlink()
        store.call("generation.abort", token=token, generation=1, reason="x")
        assert store.states() == {}


def test_by_length_alone_a_flipped_bit_is_served_and_a_torn_shard_is_not(open_store: OpenStore, tmp_path: Path) -> None:
    with open_store(defect="length-only") as store:
        store.save(lead(store), 1)
        damage(tmp_path, SHARDS, "flip")
        assert store.call("shard.get", generation=1, name="__0_0.distcp").body
        damage(tmp_path, SHARDS, "truncate")
        assert refusal(store, "shard.get", generation=1, name="__0_0.distcp") == "length"


def test_a_marker_first_store_commits_what_is_not_there(open_store: OpenStore) -> None:
    with open_store(defect="marker-first") as store:
        token = lead(store)
        store.call("generation.begin", token=token, generation=1, step=20, world=1)
        shards = [{"name": "__0_0.distcp", "rank": 0, "length": 0, "digest": ""}]
        manifest = {"generation": 1, "step": 20, "epoch": token, "world": 1, "shards": shards}
        store.call("generation.decide", token=token, generation=1, manifest=manifest)
        store.call("generation.commit", token=token, generation=1)
        store.save(token, 1, shards=1)
        kinds = [kind for kind, _ in store.events]
        assert kinds.index("checkpoint.committed") < kinds.index("checkpoint.shard_written")
        assert store.call("shard.get", generation=1, name="__0_0.distcp").body.startswith(b"shard 0")


def test_a_store_that_serves_the_newest_directory_offers_an_uncommitted_one(open_store: OpenStore) -> None:
    with open_store(defect="restore-newest-directory") as store:
        token = lead(store)
        store.save(token, 1, upto="shards")
        store.call("generation.abort", token=token, generation=1, reason="r")
        manifest = store.call("manifest.get", generation=1)["manifest"]
        assert (manifest["step"], len(manifest["shards"])) == (20, 2)


def test_an_epoch_that_is_not_raised_is_issued_twice(open_store: OpenStore) -> None:
    with open_store(defect="epoch-not-raised") as store:
        assert lead(store) == lead(store) == 1
        assert store.call("epoch.advance", token=1, holder="coordinator-0", ttl=9, reason="r")["epoch"] == 1


def test_what_was_answered_is_there_after_a_restart(open_store: OpenStore) -> None:
    with open_store() as store:
        token = lead(store)
        store.save(token, 1)
        store.save(token, 2, upto="decide")
        store.save(token, 3, upto="shards")
    with open_store() as store:
        assert store.states() == {1: "committed", 2: "decided", 3: "open"}
        store.call("generation.commit", token=token, generation=2)
        assert store.call("shard.get", generation=2, name="__1_0.distcp").body == b"shard 1 of 2, long enough to rot"


def test_a_finished_job_needs_no_leader(store: LiveStore) -> None:
    store.call("job.finish", token=lead(store), outcome="completed")
    assert refusal(store, "lease.acquire", holder="coordinator-1", ttl=1, nonce="x") == "finished"


@pytest.mark.parametrize("call", [{"op": "no.such"}, {"op": "lease.renew"}, {"op": "shard.put", "token": 1}])
def test_a_call_that_makes_no_sense_is_answered(store: LiveStore, call: dict[str, Any]) -> None:
    assert refusal(store, **call) == "unknown"
