"""Save and restore through `torch.distributed.checkpoint`: staged on this node, kept by the store."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from chaos.inside import emit, point, recovery_path
from targets.trainer import defects
from targets.trainer.settings import Settings
from targets.trainer.wire import Budget, Caller, Frame, Refused, Unreachable, digest
from targets.trainer.worker.group import Group
from targets.trainer.worker.shared import Shared
from targets.trainer.worker.state import PARTS, TrainState

METADATA = ".metadata"
UNRESTORED = {
    defects.RNG_NOT_RESTORED: "rng",
    defects.CURSOR_NOT_RESTORED: "data",
    defects.SCHEDULE_NOT_RESTORED: "schedule",
    defects.SPARE_STARTS_AFRESH: "data",  # of a spare alone
}


class Damaged(Exception):
    """What the store holds is not what was saved; `reason` is a word of the protocol."""

    def __init__(self, name: str, reason: str) -> None:
        self.name, self.reason = name, reason
        super().__init__(f"{name}: {reason}")


class Restored(NamedTuple):
    """Where the live state comes from."""

    generation: int
    step: int
    world: int  # that saved it


class Vault:
    """A rank's way to the store. Every write carries the epoch of the group as its fencing token."""

    def __init__(
        self, store: Caller, group: Group, epoch: int, staging: Path, settings: Settings, shared: Shared | None = None
    ) -> None:
        self._shared, self._unseen = shared, set[int]()
        self._store, self._group, self._epoch, self._settings = store, group, epoch, settings
        self._staging = staging / f"rank-{group.rank}"
        shutil.rmtree(self._staging, ignore_errors=True)  # an earlier incarnation's

    def save(
        self, tensors: dict[str, Tensor], generation: int, step: int, budget: Budget | None = None
    ) -> list[dict[str, Any]]:
        """Write this rank's shards; they are durable at the store when it returns. A collective of the group."""
        folder = self._staging / f"save-{generation:06d}"
        writer = FileSystemWriter(folder, single_file_per_rank=True, sync_files=False, thread_count=1)
        save(tensors, storage_writer=writer, process_group=self._group.background)
        point("checkpoint.before_shard", generation=generation, rank=self._group.rank, epoch=self._epoch)
        shards = [self._put(path, generation, step, budget) for path in sorted(folder.iterdir(), reverse=True)]
        shutil.rmtree(folder)
        return shards

    def restore(self, state: TrainState, generation: int, *, promoted: bool = False) -> Restored:
        """Fill `state` from a committed generation; raises Damaged. Each rank reads for itself."""
        defect = self._settings.defect
        if defect == defects.EACH_RANK_LOOKS and self._shared is not None:
            generation = self._shared.newest() or generation
        self._announce(generation, "store" if self._shared is None else "shared")
        if defect != defects.OPTIMIZER_EMPTY:
            state.initialise_optimizer()
        fresh = UNRESTORED.get(defect) if promoted or defect != defects.SPARE_STARTS_AFRESH else None
        manifest = self._load(state, generation, [part for part in PARTS if part != fresh])
        restored = Restored(generation, manifest["step"], manifest["world"])
        if restored.world != self._group.world:
            state.seed_rng(step=restored.step)
        if defect == defects.MIXED_GENERATIONS and self._group.rank == self._group.world - 1:
            return restored._replace(generation=self._load_older(state, generation))
        return restored

    def refill(self, state: TrainState, local: dict[str, Tensor], restored: Restored) -> Restored:
        """Fill `state` from what this rank itself still holds of that generation."""
        self._announce(restored.generation, "memory")
        state.initialise_optimizer()
        state.fill(local)
        return restored

    def _announce(self, generation: int, source: str) -> None:
        facts = {"generation": generation, "rank": self._group.rank, "epoch": self._epoch}
        emit("checkpoint.loading", **facts, source=source)
        point("restore.loading", **facts)

    def _load_older(self, state: TrainState, generation: int) -> int:
        known = self._store.call("generation.list")["generations"]
        committed = [g["generation"] for g in known if g["state"] == "committed"]
        older: int = max((number for number in committed if number < generation), default=generation)
        self._load(state, older, ("model", "optimizer"))
        return older

    def _put(self, path: Path, generation: int, step: int, budget: Budget | None) -> dict[str, Any]:
        body = path.read_bytes()
        shard: dict[str, Any] = {"name": path.name, "length": len(body), "digest": digest(body)}
        facts = {"generation": generation, "step": step, "rank": self._group.rank, **shard}
        trusted = self._settings.defect == defects.UPLOAD_TRUSTED
        if trusted:
            budget = Budget(self._settings.try_timeout, 0)
        try:
            self._store.call("shard.put", token=self._epoch, body=body, budget=budget, **facts)
        except Unreachable:
            if not trusted:
                raise
        return shard

    def _load(self, state: TrainState, generation: int, parts: Sequence[str]) -> dict[str, Any]:
        manifest: dict[str, Any] = self._read("manifest.get", "manifest", generation=generation)["manifest"]
        if manifest["world"] != self._group.world:
            parts = [part for part in parts if part != "rng"]
        folder = self._staging / f"load-{generation:06d}"
        folder.mkdir(parents=True, exist_ok=True)
        for shard in manifest["shards"]:
            (folder / shard["name"]).write_bytes(self._get_or_older(generation, shard))
        tensors = state.tensors(parts)
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "torch.distributed is disabled")  # each rank reads alone, on purpose
                load(tensors, storage_reader=FileSystemReader(folder), no_dist=True)
        except CheckpointException as error:
            raise Damaged(METADATA, "format") from error
        state.apply(tensors)
        shutil.rmtree(folder)
        return manifest

    def _get_or_older(self, generation: int, shard: dict[str, Any]) -> bytes:
        try:
            return self._get(generation, shard)
        except Damaged as damaged:
            if self._settings.defect != defects.MISSING_SHARD_FROM_OLDER or damaged.reason != "incomplete":
                raise
            older = self._read("manifest.get", "manifest", generation=generation - 1)["manifest"]["shards"]
            return self._get(generation - 1, next(s for s in older if s["name"] == shard["name"]))

    def _get(self, generation: int, shard: dict[str, Any]) -> bytes:
        name = shard["name"]
        body = self._read("shard.get", name, generation=generation, name=name).body
        found = digest(body)
        emit("checkpoint.shard_read", generation=generation, name=name, bytes=len(body), digest=found)
        unverified = self._settings.defect in (defects.DIGEST_NOT_VERIFIED, defects.LENGTH_ONLY)
        if found != shard["digest"] and not unverified:
            raise Damaged(name, "digest")
        return body

    def _read(self, op: str, what: str, **fields: Any) -> Frame:
        """Read from the shared folder, where that is wished and its files come into sight, else by a call; what the
        store does not hold, or knows to be damaged, is damage.
        """
        try:
            if self._shared is None or fields["generation"] in self._unseen:
                return self._store.call(op, **fields)
            if (seen := self._shared.read(op, fields)) is not None:
                return seen
            self._unseen.add(fields["generation"])
            with recovery_path("restore.fall_back"):
                return self._store.call(op, **fields)
        except Refused as refused:
            raise Damaged(what, refused.error) from refused
