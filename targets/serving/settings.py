"""What a run sets (`CHAOS_SETTINGS`) and where a process stands (`CHAOS_NODES`, `CHAOS_NODE`, …)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

ROUTER_PORT = 8000
REPLICA_PORT = 8100
STORE_PORT = 6379
STORE_HELPER_PORT = 6380  # of `targets.serving.store`: publishes generations, loses or restarts its Redis

TIERS = ("primary", "secondary", "tertiary", "static")  # the model ladder, best first
FEATURES = ("critical", "important", "useful", "optional")

# What the load asks for, and what is beyond it and so a client's mistake (400).
USERS = 1000  # 0, 1, …
ITEMS = 2000  # 0, 1, …
RANKED = 20  # items of a ranking request, and at most:
RANKED_MOST = 200
VOCABULARY = 256  # tokens 0, 1, …
PROMPT = 16  # tokens of a turn's prompt, and at most:
PROMPT_MOST = 256


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the stack and its load, mirrored by target.yaml. Times are seconds."""

    replicas: int = 3
    seed: int = 7
    store: str = "auto"  # redis, embedded, or auto: Redis where the machine has it
    generations: int = 1  # published before the replicas start
    publish_every: float = 0.0  # then another one each time; 0: none, until somebody asks for it
    redis_restart: float = 0.0  # a Redis that was lost comes back after this, and empty; 0: the store ends with it
    source_seconds: float = 0.02  # of the source of record, to compute the features of a user whom the store has lost
    source_workers: int = 2  # users at the same time
    failover: str = "replicate"  # of a session: lose, checkpoint, replicate, external
    defect: str = "none"

    # Load
    seconds: float = 20.0
    users: int = 200  # that may wait for an answer at the same time; fewer would keep an overload from the service
    rate: float = 80.0  # ranking requests a second, at their intended times
    streams: float = 2.0  # turns of sessions a second
    tokens: int = 24  # of a turn
    turns: int = 3  # of a session
    think: float = 0.3  # between two turns of a session
    shape: str = "steady"  # or burst, ramp, spike: see targets/serving/load
    peak: float = 5.0  # of a burst or spike, times `rate`
    peak_at: float = 6.0
    peak_for: float = 5.0
    wrong_share: float = 0.0  # of the requests that are the client's own mistakes
    high: float = 0.2  # share of requests of high priority …
    low: float = 0.3  # … and of low; the rest is normal
    hot: float = 0.0  # share of requests for one hot user
    deadline: float = 1.0  # of a ranking request
    stream_deadline: float = 8.0  # of a turn

    # Replicas
    rank_seconds: float = 0.0  # at least, of one ranking: a larger model than this one
    token_seconds: float = 0.02  # at least, between two tokens
    load_seconds: float = 0.0  # at least, of loading the weights
    workers: int = 4  # requests that a replica computes at the same time
    replica_queue: int = 32
    kv_blocks: int = 512
    kv_every: int = 8  # tokens between two saves, with `failover: checkpoint`
    kv_patience: float = 0.15  # for one save of a session, and for one look whether it is kept somewhere
    session_idle: float = 10.0  # until a session's blocks are given back
    feature_timeout: float = 0.05  # of each tier but critical, which has the request's deadline
    feature_ttl: float = 5.0  # of what `useful` caches; what is older is still used when the store is gone
    drain: float = 10.0

    # Router
    health_every: float = 0.25
    health_timeout: float = 0.25
    health_out: int = 2
    health_in: int = 2
    outlier_window: float = 2.0
    outlier_rate: float = 0.5
    outlier_least: int = 5
    breaker_open: float = 1.0  # until one trial
    try_share: float = 0.5  # of the deadline that is left, for one attempt while another one may follow
    attempts: int = 3  # of one request
    retry_ratio: float = 0.1  # of all requests, as a token bucket of …
    retry_burst: int = 20
    concurrency: int = 48  # requests at the replicas at the same time
    queue: int = 64
    ladder_window: float = 1.0
    ladder_hold: float = 2.0  # below the lower thresholds, before it goes up a rung
    ladder_p99: float = 0.25
    ladder_errors: float = 0.2
    ladder_queue: int = 32
    ladder_lower: float = 0.5  # times those: the lower thresholds

    @classmethod
    def from_environment(cls) -> Settings:
        """The defaults, overridden by the JSON object in `CHAOS_SETTINGS`; names of others are ignored."""
        return msgspec.json.decode(os.environ.get("CHAOS_SETTINGS") or "{}", type=cls)


class Address(NamedTuple):
    """Where a service listens."""

    host: str
    port: int

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"


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
        names = ["s0", "gw", "c0", *(f"r{i}" for i in range(settings.replicas))]
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
    def store_helper(self) -> Address:
        return Address(self.nodes["s0"], STORE_HELPER_PORT)

    @property
    def router(self) -> Address:
        return Address(self.nodes["gw"], ROUTER_PORT)

    def replica(self, index: int) -> Address:
        return Address(self.nodes[f"r{index}"], REPLICA_PORT)

    @property
    def models(self) -> Path:
        """The folder of generations."""
        return self.data / "models"
