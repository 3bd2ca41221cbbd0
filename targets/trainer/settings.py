"""What a run sets (`CHAOS_SETTINGS`) and where a process stands (`CHAOS_NODES`, `CHAOS_NODE`, …)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

STORE_PORT = 7100
OBJECTS_PORT = 9000
COORDINATOR_PORT = 7200  # coordinator-1 listens on the next one


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the job, mirrored by target.yaml. Times are seconds."""

    nodes: int = 4
    steps: int = 100
    checkpoint_every: int = 20
    seed: int = 7
    batch: int = 12  # samples of a step, over all ranks, at any world size
    dataset: int = 960  # samples of one data epoch
    min_world: int = 2
    keep: int = 3  # committed generations that retention leaves
    save: str = "sync"  # or "async"
    restore: str = "store"  # or "shared": each node reads checkpoints from the shared folder, as on NFS
    restart: str = "cold"  # or "warm": survivors keep their processes, and the state in their memory
    replicas: int = 1  # of the whole state, each on its share of the ranks; one that loses a rank leaves, and rejoins
    spares: int = 0  # of the nodes: ready, but in the group only once another one is lost
    step_seconds: float = 0.06  # at least: on a fast machine a job is as long as on two cores, and outlasts its faults
    save_seconds: float = 0.0  # at least: a slow store makes long healthy checkpoints
    objects: int = 0  # 1: generations lie in a bucket of an object store of their own, not in the store's folder
    objects_budget: float = 0.8  # for all tries of one call to it; shorter than try_timeout, or both layers retry
    defect: str = "none"

    lease_ttl: float = 3.0  # leadership, at the store
    lease_renew: float = 0.5
    heartbeat: float = 0.25  # H, of agents and workers
    member_ttl: float = 3.0  # an agent's lease; silence this long is confirmed as a failure
    pause: float = 0.0  # longer, where a whole node is silent: the group waits for it, and goes on as it was
    suspect_k: float = 4.0  # suspected after H + kσ of silence, between floor and ceiling
    suspect_floor: float = 0.75
    suspect_ceiling: float = 2.0
    straggler_factor: float = 3.0  # slow: that many times the span of the other ranks
    stall: float = 6.0  # without progress while training …
    stall_checkpoint: float = 20.0  # … while saving
    stall_start: float = 30.0  # … from the order to start to the end of the first step
    start_wait: float = 15.0  # at the very first start, for nodes that do not come while others do
    start_give_up: float = 120.0  # at the very first start, without a group that is large enough: machines boot
    lost_wait: float = 1.5  # for the return of a lost node
    give_up: float = 30.0  # without a group that is large enough
    max_failures: int = 6  # incarnations in a row that end without a step
    commit_deadline: float = 20.0
    try_timeout: float = 1.0  # of one try of a call
    retries: int = 24  # of calls of the store, in all that belongs to one round
    visible_wait: float = 2.0  # for a committed generation to come into sight there; then the store is asked
    grace: float = 2.0  # between the notice that a node goes away (SIGTERM) and its end
    gloo_timeout: float = 60.0  # longer than detection: the coordinator decides first

    @classmethod
    def from_environment(cls) -> Settings:
        """The defaults, overridden by the JSON object in `CHAOS_SETTINGS`; names of others are ignored."""
        return msgspec.json.decode(os.environ.get("CHAOS_SETTINGS") or "{}", type=cls)


class Address(NamedTuple):
    """Where a service listens."""

    host: str
    port: int


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Who this process is and where the others are. Without a harness: addresses 127.0.0.2, 127.0.0.3, …"""

    member: str
    node: str
    nodes: Mapping[str, str]  # name -> address
    data: Path

    @classmethod
    def from_environment(cls, settings: Settings, *, member: str, node: str) -> Place:
        """`member` and `node` are meant where the environment does not say."""
        known = os.environ.get("CHAOS_NODES")
        names = ["s0", *(f"n{i}" for i in range(settings.nodes))]
        return cls(
            member=os.environ.get("CHAOS_MEMBER") or member,
            node=os.environ.get("CHAOS_NODE") or node,
            nodes=msgspec.json.decode(known, type=dict[str, str])
            if known
            else {name: f"127.0.0.{i}" for i, name in enumerate(names, 2)},
            data=Path(os.environ.get("CHAOS_DATA") or "data"),
        )

    @property
    def address(self) -> str:
        """Own address."""
        return os.environ.get("CHAOS_ADDRESS") or self.nodes[self.node]

    @property
    def store(self) -> Address:
        return Address(self.nodes["s0"], STORE_PORT)

    @property
    def objects(self) -> Address:
        return Address(self.nodes.get("o0", "127.0.0.1"), OBJECTS_PORT)

    def coordinator(self, index: int, settings: Settings) -> Address:
        """coordinator-0 lives on the last training node, coordinator-1 on the first."""
        node = f"n{settings.nodes - 1}" if index == 0 else "n0"
        return Address(self.nodes[node], COORDINATOR_PORT + index)

    def coordinators(self, settings: Settings) -> tuple[Address, ...]:
        """Where to look for the leader."""
        return tuple(self.coordinator(index, settings) for index in (0, 1))
