"""A cluster in one process: a real store and real coordinators over TCP, fake nodes that speak the protocol.

A fake worker trains by sleeping 2 ms a step, and saves its step and rank. Everybody's events land in one list.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import TaskGroup

from chaos import inside
from targets.trainer.coordinator.members import Door, Inbox
from targets.trainer.coordinator.term import Coordinator
from targets.trainer.settings import Address, Place, Settings
from targets.trainer.store.server import Server, Store
from targets.trainer.wire import Frame, Refused, Unreachable, digest
from targets.trainer.wire_async import BROKEN, AsyncCaller, AsyncLine

from .recorded import Events

FAST = {
    "nodes": 3, "steps": 30, "checkpoint_every": 10, "min_world": 2,
    "lease_ttl": 0.8, "lease_renew": 0.05, "heartbeat": 0.05, "member_ttl": 0.8, "suspect_floor": 0.3,
    "suspect_ceiling": 0.5, "lost_wait": 0.15, "start_wait": 1.0, "give_up": 1.5, "stall": 1.0, "stall_start": 2.0,
    "stall_checkpoint": 2.0, "commit_deadline": 8.0, "try_timeout": 0.5,
}  # fmt: skip

# Where nobody is lost by silence, no silence of a busy machine may count.
PATIENT = {"lease_ttl": 20.0, "member_ttl": 20.0, "stall": 20.0, "stall_start": 20.0, "stall_checkpoint": 20.0}


class Network:
    """Coordinators that are cut off: from the store, and from every node (theirs included, as on a dead switch)."""

    def __init__(self) -> None:
        self.cut: set[str] = set()
        self.dead: set[str] = set()  # processes that are gone: nothing that they still try arrives

    async def pass_or_hang(self, *ends: str) -> None:
        """Return at once, or never where an end is cut off: packets are dropped, nothing is refused."""
        if self.cut & set(ends):
            await anyio.sleep_forever()


class Cuttable(AsyncCaller):
    """Calls that hang while their sender is cut off."""

    def __init__(self, network: Network, address: Address, member: str, try_timeout: float) -> None:
        super().__init__(address, member, try_timeout=try_timeout)
        self._network, self._sender = network, member

    async def _try(self, header: dict[str, Any], body: bytes) -> Frame:
        if self._sender in self._network.dead:
            raise Refused({"error": "stale-epoch"})
        await self._network.pass_or_hang(self._sender)
        return await super()._try(header, body)


class Node:
    """A fake agent with its worker. Attributes are knobs that a test turns."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster, self.name, self.settings = cluster, name, cluster.settings
        self.frozen_worker = False  # no heartbeats, no progress
        self.frozen = False  # nor of the agent
        self.lose_shard = False  # acknowledges a shard that it never wrote
        self.save_seconds = 0.0
        self.stale_step: int | None = None
        self.canary: Callable[[int], float] = lambda step: 1.0
        self.stuck = False  # its worker cannot be freed for another group
        self.epochs: list[int] = []  # of the workers that it started
        self.live: list[tuple[int, bool]] = []  # steps that it went on from, and whether peers handed on their state
        self.regrouped: list[int] = []  # epochs in which its worker was told to go on
        self._scope: anyio.CancelScope | None = None
        self._worker: anyio.CancelScope | None = None
        self.ended = False
        self._leaving = False

    async def run(self) -> None:
        """Live until killed or told to finish."""
        with anyio.CancelScope() as self._scope:
            while not self.ended:
                for member, address in self.cluster.coordinators.items():
                    if not self.ended and member not in self.cluster.network.cut:
                        await poll(lambda: not self.frozen)
                        await self._attend(member, address)
                await anyio.sleep(0.02)

    def kill(self) -> None:
        """The whole node dies: its connections close."""
        assert self._scope is not None
        self._scope.cancel()

    def kill_worker(self) -> None:
        assert self._worker is not None
        self._worker.cancel()

    async def leave(self, grace: float) -> None:
        await self._send({"op": "leaving", "node": self.name, "grace": grace})
        self._leaving = True

    async def _attend(self, member: str, address: Address) -> None:
        try:
            line = AsyncLine(await anyio.connect_tcp(*address))
        except OSError:
            return
        self._line, self._leader, self._renewed = line, member, anyio.current_time()
        try:
            await line.send({"op": "join", "id": 0, "node": self.name, "member": f"agent-{self.name}", "pid": 1})
            if not (await line.receive())["ok"]:
                return
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._beat, tasks)
                await self._obey(tasks)
                tasks.cancel_scope.cancel()
        except* BROKEN:
            pass
        finally:
            await line.close()

    async def _beat(self, tasks: TaskGroup) -> None:
        while True:
            await anyio.sleep(self.settings.heartbeat)
            if self._leader not in self.cluster.network.cut and not self.frozen:
                await self._send({"op": "heartbeat", "id": 1, "node": self.name, "workers": []})
                self._renewed = anyio.current_time()
            if anyio.current_time() - self._renewed > self.settings.member_ttl and not self.frozen:
                tasks.cancel_scope.cancel()

    async def _obey(self, tasks: TaskGroup) -> None:
        while not self.ended:
            order = await self._line.receive()
            if order.get("ok") is False:
                return
            if self._leader in self.cluster.network.cut or "ok" in order.header:
                continue
            if order["op"] == "start":
                tasks.start_soon(self._work, order)
            elif order["op"] == "stop":
                if self._worker is not None:
                    worker, self._worker = self._worker, None  # an end on demand is not reported
                    worker.cancel()
                await self._send({"op": "stopped", "epoch": order["epoch"]})
                self.ended = self._leaving
            elif order["op"] == "finish":
                self.ended = True

    async def _send(self, header: dict[str, Any]) -> None:
        await self._line.send(header)

    async def _work(self, start: Frame) -> None:
        self.epochs.append(start["epoch"])
        worker = Worker(self, start, self._leader)
        with anyio.CancelScope() as scope:
            self._worker = scope
            await worker.run(self.cluster.coordinators[self._leader])
        if self._worker is scope and scope.cancel_called and not (self._scope and self._scope.cancel_called):
            facts = {"node": self.name, "rank": worker.rank, "epoch": worker.epoch, "code": -9}
            await self._send({"op": "worker.exited", **facts})


class Worker:
    """A fake rank."""

    def __init__(self, node: Node, start: Frame, leader: str) -> None:
        self._node, self.rank, self.epoch, self._leader = node, start["rank"], start["epoch"], leader
        self._regrouped = False
        self._member, self._step, self._phase = f"worker-{node.name}", 0, "starting"
        self._store = AsyncCaller(node.cluster.store, self._member, try_timeout=0.2)
        self._orders: Inbox[Frame] = Inbox()

    async def run(self, address: Address) -> None:
        self._line = AsyncLine(await anyio.connect_tcp(*address))
        try:
            await self._tell("hello", node=self._node.name, member=self._member, pid=2)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._beat)
                tasks.start_soon(self._listen, tasks)
                await self._incarnations()
                tasks.cancel_scope.cancel()
        except* BROKEN:
            pass
        finally:
            await self._line.close()

    async def _incarnations(self) -> None:
        while True:
            with anyio.CancelScope() as self._incarnation:
                await self._train()
                return
            if not self._regrouped:
                return
            self._regrouped = False

    async def _tell(self, op: str, **fields: Any) -> None:
        await self._node.cluster.network.pass_or_hang(self._leader)
        await self._line.send({"op": op, "rank": self.rank, "epoch": self.epoch, **fields})

    async def _beat(self) -> None:
        while True:
            await anyio.sleep(self._node.settings.heartbeat)
            if not (self._node.frozen_worker or self._node.frozen):
                await self._tell("heartbeat", step=self._step, phase=self._phase)

    async def _listen(self, tasks: TaskGroup) -> None:
        while True:
            frame = await self._line.receive()
            if frame.get("ok") is False:
                tasks.cancel_scope.cancel()
            elif frame["op"] == "cut":
                self._node.cluster.pace.cut(self.epoch, self._step)
            elif frame["op"] == "regroup":
                self._node.regrouped.append(frame["epoch"])
                if self._node.stuck:
                    continue
                self.rank, self.epoch, self._phase, self._orders = frame["rank"], frame["epoch"], "starting", Inbox()
                self._regrouped = True
                self._incarnation.cancel()
            else:
                self._orders.put(frame)

    async def _next(self, op: str) -> Frame:
        while (frame := await self._orders.get())["op"] != op:
            pass
        return frame

    async def _train(self) -> None:
        s = self._node.settings
        await self._tell("joined", step=self._step)
        await self._load(await self._next("load"))
        await self._next("go")
        while self._step < s.steps:
            self._phase = "training"
            await anyio.sleep(0.002)
            await poll(lambda: not (self._node.frozen_worker or self._node.frozen))
            self._step += 1
            urgent = self._node.cluster.pace.stepped(self.epoch, self.rank, self._step)
            if self._step % s.checkpoint_every == 0 or self._step == s.steps or urgent:
                await self._checkpoint()
        await self._tell("done", step=self._step, loss=1.0)

    async def _load(self, order: Frame) -> None:
        generation, loss = order["generation"], None
        if order.get("live"):
            self._node.live.append((order["step"], order["spread"]))
            self._step = order["step"]
            await self._tell("loaded", generation=generation, step=self._step, state={}, loss=1.0)
            return
        if generation:
            loss = self._node.canary(order["step"])
            try:
                manifest = (await self._store.call("manifest.get", generation=generation))["manifest"]
                for shard in manifest["shards"]:
                    await self._store.call("shard.get", generation=generation, name=shard["name"])
            except Refused as refused:
                await self._tell("unloaded", generation=generation, name=refused.fields["name"], reason=refused.error)
                return
        stale = self._node.stale_step
        self._step = order["step"] if stale is None or not generation else stale
        state = {"model": f"{self._step}"}
        await self._tell("loaded", generation=generation, step=self._step, state=state, loss=loss)

    async def _checkpoint(self) -> None:
        self._phase = "saving"
        await self._tell("ready", step=self._step, loss=1.0)
        order = await self._next("save")
        generation, name = order["generation"], f"__{self.rank}_0.distcp"
        body = f"rank {self.rank} at step {self._step}, generation {generation}".encode()
        facts: dict[str, Any] = {"name": name, "length": len(body), "digest": digest(body)}
        token: dict[str, Any] = {"token": self.epoch, "generation": generation, "step": self._step, "rank": self.rank}
        await anyio.sleep(self._node.save_seconds)
        try:
            if not self._node.lose_shard:
                # A call that is cut off in the middle leaves its answer to the next one; a regroup waits for its end.
                with anyio.CancelScope(shield=True):
                    await self._store.call("shard.put", body=body, **facts, **token)
        except (Refused, Unreachable):
            return
        self._node.lose_shard = False
        await self._tell("saved", generation=generation, shards=[facts], state={})
        await self._next("release")


class Pace:
    """What the collectives of real ranks see to: a cut that was asked for comes after the same step on every rank."""

    def __init__(self) -> None:
        self._steps: dict[int, dict[int, int]] = {}  # epoch -> rank -> step
        self._cuts: dict[int, int] = {}  # epoch -> the step after which all stop

    def stepped(self, epoch: int, rank: int, step: int) -> bool:
        """A rank has done a step; whether it is the one to stop after."""
        self._steps.setdefault(epoch, {})[rank] = step
        return step == self._cuts.get(epoch)

    def cut(self, epoch: int, step: int) -> None:
        """A rank at that step was asked to stop: after the next step that nobody has done yet, unless that is known."""
        if self._cuts.get(epoch, -1) < step:
            self._cuts[epoch] = max([step, *self._steps.get(epoch, {}).values()]) + 1


class Cluster:
    """Store, coordinators, nodes."""

    def __init__(self, settings: Settings, folder: Path, events: Events) -> None:
        self.settings, self.events, self.network, self.pace = settings, events, Network(), Pace()
        self.coordinators: dict[str, Address] = {}
        self.nodes: dict[str, Node] = {}
        self.codes: dict[str, int] = {}
        self._scopes: dict[str, anyio.CancelScope] = {}
        self._folder = folder

    @asynccontextmanager
    async def running(self, *, coordinators: int = 2) -> AsyncIterator[None]:
        """Everything started; ends everything."""
        server = Server(Store(self._folder / "store", self.settings), Address("127.0.0.1", 0))
        self.store = server.address
        thread = threading.Thread(target=server.serve)
        thread.start()
        try:
            async with anyio.create_task_group() as self.tasks:
                for index in range(coordinators):
                    await self.start_coordinator(index)
                for index in range(self.settings.nodes):
                    self.start_node(f"n{index}")
                self.stop_store = server.close
                yield
                self.tasks.cancel_scope.cancel()
        finally:
            server.close()
            await anyio.to_thread.run_sync(thread.join)

    def start_node(self, name: str) -> None:
        self.nodes[name] = Node(self, name)
        self.tasks.start_soon(self.nodes[name].run)

    async def start_coordinator(self, index: int) -> None:
        name = f"coordinator-{index}"
        addresses = {f"n{i}": "127.0.0.1" for i in range(self.settings.nodes)}
        place = Place(member=name, node="n0", nodes=addresses, data=self._folder)
        door = Door(Address("127.0.0.1", 0))
        peer = next(iter(self.coordinators.values()), Address("127.0.0.1", 1))
        coordinator = Coordinator(place, self.settings, store=self.store, door=door, peer=peer)
        coordinator._store = Cuttable(self.network, self.store, name, self.settings.try_timeout)

        async def run(*, task_status: Any) -> None:
            with anyio.CancelScope() as self._scopes[name]:
                self.codes[name] = await coordinator.run(task_status=task_status)

        await self.tasks.start(run)
        self.coordinators[name] = door.address

    def kill_coordinator(self, index: int) -> None:
        self.network.dead.add(f"coordinator-{index}")
        self._scopes[f"coordinator-{index}"].cancel()

    async def until(self, kind: str, *, count: int = 1, **where: Any) -> dict[str, Any]:
        """Wait for that event, the `count`th."""
        with anyio.fail_after(10):
            await poll(lambda: len(self.events.of(kind, **where)) >= count)
        return self.events.of(kind, **where)[count - 1]

    async def end(self) -> int:
        """Wait until a coordinator ends the job: its exit code."""
        with anyio.fail_after(40):
            await poll(lambda: bool(self.codes))
        return next(iter(self.codes.values()))


async def poll(condition: Callable[[], bool]) -> None:
    """Wait for what no event tells, because it changes in another thread or on a test's whim."""
    while not condition():  # noqa: ASYNC110
        await anyio.sleep(0.005)


class Points:
    """Failpoints: whoever comes to the armed one stays until `release`, once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str, where: Callable[[dict[str, Any]], bool]) -> None:
        self._where, self._reached, self._gate = where, threading.Event(), threading.Event()
        monkeypatch.setattr(inside, "_armed", {name})
        monkeypatch.setattr(inside, "_reader", self)

    def stand(self, data: dict[str, Any]) -> None:
        self._here = self._where(data) and not self._reached.is_set()

    def readline(self) -> None:
        if self._here:
            self._reached.set()
            self._gate.wait(10)

    async def reached(self) -> None:
        with anyio.fail_after(10):
            await poll(self._reached.is_set)

    def release(self) -> None:
        self._gate.set()


def record(monkeypatch: pytest.MonkeyPatch) -> Events:
    """Have `inside` hand every event of this process to a list."""
    events, lock = Events(), threading.Lock()

    def send(message: dict[str, Any]) -> bool:
        if message["k"] == "point":
            inside._reader.stand(message["d"])
            return True
        with lock:
            events(message["k"], **message["d"])
        return True

    monkeypatch.setattr(inside, "_address", "recorded")
    monkeypatch.setattr(inside, "_send", send)
    return events


MakeCluster = Callable[..., Cluster]
