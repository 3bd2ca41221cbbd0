"""A real store, one real agent, and a scripted leader in place of the coordinators."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from targets.trainer.local import Job, job
from targets.trainer.settings import COORDINATOR_PORT, STORE_PORT, Address, Settings
from targets.trainer.wire import Caller

from .scripted_leader import ScriptedLeader


class Bench:
    """What a test holds: `leader` comes and goes with the test, the agent may be older."""

    def __init__(self, running: Job, settings: Settings) -> None:
        self.job, self.settings = running, settings
        self.store = Caller(Address(running.nodes["s0"], STORE_PORT), "leader")
        self.epoch = 0
        self.leader: ScriptedLeader
        self._events: list[tuple[str, dict[str, Any]]] = []
        self._news = threading.Condition()

    def heard(self, who: dict[str, Any], kind: str, data: dict[str, Any]) -> None:
        with self._news:
            self._events.append((kind, data))
            self._news.notify_all()

    def events(self, kind: str, **where: Any) -> list[dict[str, Any]]:
        return [data for k, data in self._events if k == kind and where.items() <= data.items()]

    def await_events(self, count: int, kind: str, **where: Any) -> list[dict[str, Any]]:
        """Such events, once there are `count`."""
        with self._news:
            assert self._news.wait_for(lambda: len(self.events(kind, **where)) >= count, 20), f"no {kind} {where}"
            return self.events(kind, **where)

    def await_event(self, kind: str, **where: Any) -> dict[str, Any]:
        """The first such event."""
        return self.await_events(1, kind, **where)[0]

    @contextmanager
    def leading(self) -> Iterator[ScriptedLeader]:
        """Lead for the length of a test; the agent has joined."""
        self.leader = ScriptedLeader(Address(self.job.nodes["n0"], COORDINATOR_PORT))
        try:
            self.leader.await_all("join", timeout=60)  # torch is imported before it comes
            yield self.leader
        finally:
            self.leader.close()

    def new_epoch(self) -> int:
        if self.epoch:
            answer = self.store.call("epoch.advance", holder="leader", token=self.epoch, ttl=600, reason="test")
        else:
            answer = self.store.call("lease.acquire", holder="leader", ttl=600, nonce="test")
        self.epoch = answer["epoch"]
        return self.epoch

    def form(self, world: int, *, generation: int = 0, step: int = 0) -> list[dict[str, Any]]:
        """A new incarnation of the group, loaded and training; what its ranks say of the load."""
        epoch = self.new_epoch()
        self.leader.start("n0", epoch, world)
        return self.leader.load(epoch, world, generation, step)

    def disband(self) -> None:
        self.leader.order_agent("n0", "stop", epoch=self.epoch)
        self.leader.await_all("stopped", epoch=self.epoch)

    def pid(self, rank: int) -> int:
        """Of that rank's worker in the present epoch."""
        return int(self.await_event("hello", role="worker", rank=rank, epoch=self.epoch)["pid"])


@contextmanager
def bench(**settings: Any) -> Iterator[Bench]:
    """Store and agent run until the end of the block. One node, which may hold several ranks."""
    chosen = Settings(nodes=1, **settings)
    held: list[Bench] = []
    with job(chosen, lambda *event: held[0].heard(*event)) as running:
        held.append(Bench(running, chosen))
        running.start(coordinators=False)
        with closing(held[0].store):
            yield held[0]


def ends_within(descriptor: int, seconds: float) -> bool:
    """Whether the process of a pidfd ends in that time."""
    try:
        return bool(select.select([descriptor], [], [], seconds)[0])
    finally:
        os.close(descriptor)
