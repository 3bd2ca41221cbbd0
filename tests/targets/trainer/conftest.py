"""A store over real TCP, in this process, that remembers what it recorded."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from targets.trainer.settings import Address, Settings
from targets.trainer.store.server import Server, Store
from targets.trainer.wire import Caller, Frame, digest

from .cluster import FAST, Cluster, MakeCluster, record
from .recorded import Events


class LiveStore:
    """A store that serves on loopback, with one caller."""

    def __init__(self, server: Server, events: Events) -> None:
        self.server, self.events = server, events
        self.caller = Caller(server.address, "tester")

    def call(self, op: str, body: bytes = b"", **fields: Any) -> Frame:
        return self.caller.call(op, body=body, deadline=2.0, **fields)

    def put(self, token: int, generation: int, name: str, body: bytes, **wrong: Any) -> Frame:
        facts = {"step": 20, "rank": 0, "length": len(body), "digest": digest(body), **wrong}
        return self.call("shard.put", body, token=token, generation=generation, name=name, **facts)

    def save(self, token: int, generation: int, *, upto: str = "commit", shards: int = 2) -> dict[str, Any]:
        """A generation with small shards, taken as far as `upto`; its manifest."""
        step = 20 * generation
        self.call("generation.begin", token=token, generation=generation, step=step, world=shards)
        named = []
        for rank in range(shards):
            body = f"shard {rank} of {generation}, long enough to rot".encode()
            self.put(token, generation, f"__{rank}_0.distcp", body, step=step, rank=rank)
            named.append({"name": f"__{rank}_0.distcp", "rank": rank, "length": len(body), "digest": digest(body)})
        manifest = {"generation": generation, "step": step, "epoch": token, "world": shards, "shards": named}
        if upto in ("decide", "commit"):
            self.call("generation.decide", token=token, generation=generation, manifest=manifest)
        if upto == "commit":
            self.call("generation.commit", token=token, generation=generation)
        return manifest

    def states(self) -> dict[int, str]:
        return {g["generation"]: g["state"] for g in self.call("generation.list")["generations"]}


OpenStore = Callable[..., AbstractContextManager[LiveStore]]


@pytest.fixture
def open_store(tmp_path: Path) -> OpenStore:
    """Opens a store on the same folder each time; keyword arguments are settings."""

    @contextmanager
    def opened(**settings: Any) -> Iterator[LiveStore]:
        events = Events()
        server = Server(Store(tmp_path / "store", Settings(**settings), events), Address("127.0.0.1", 0))
        thread = threading.Thread(target=server.serve)
        thread.start()
        live = LiveStore(server, events)
        try:
            yield live
        finally:
            live.caller.close()
            server.close()
            thread.join()

    return opened


@pytest.fixture
def store(open_store: OpenStore) -> Iterator[LiveStore]:
    with open_store() as live:
        yield live


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakeCluster:
    def made(**settings: Any) -> Cluster:
        return Cluster(Settings(**{**FAST, **settings}), tmp_path, record(monkeypatch))

    return made
