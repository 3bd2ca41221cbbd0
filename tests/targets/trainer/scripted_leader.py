"""A coordinator that keeps no promises of its own: it leads one group through the protocol as a test says."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from typing import Any

from targets.trainer.settings import Address
from targets.trainer.wire import Caller, Frame, Line

Said = dict[str, Any]


class ScriptedLeader:
    """Listens where an agent looks for a leader. Everything members say is kept; tests wait for it with `await_all`."""

    def __init__(self, address: Address) -> None:
        self._socket = socket.create_server(address)
        self._said: list[Said] = []
        self._news = threading.Condition()
        self._agents: dict[str, Line] = {}
        self._workers: dict[tuple[int, int], Line] = {}  # (epoch, rank)
        self.refuse: Callable[[Frame], str | None] = lambda frame: None
        self.ttl, self.mute = 2.0, False
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Stop listening and drop all members."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for line in (*self._agents.values(), *self._workers.values()):
            line.close()

    def await_all(self, op: str, count: int = 1, *, timeout: float = 60.0, **fields: Any) -> list[Said]:
        """The messages `op` with these fields, oldest first, once there are `count`."""
        with self._news:
            if not self._news.wait_for(lambda: len(self.heard(op, **fields)) >= count, timeout):
                seen = sorted({s["op"] for s in self._said})
                raise AssertionError(f"{len(self.heard(op, **fields))} of {count} × {op} {fields}; said: {seen}")
            return self.heard(op, **fields)

    def heard(self, op: str, **fields: Any) -> list[Said]:
        """Such messages as have come so far."""
        return [s for s in self._said if s["op"] == op and all(s.get(k) == v for k, v in fields.items())]

    def order_agent(self, node: str, op: str, **fields: Any) -> None:
        self._agents[node].send({"op": op, **fields})

    def order_worker(self, epoch: int, rank: int, op: str, **fields: Any) -> None:
        self._workers[epoch, rank].send({"op": op, "epoch": epoch, **fields})

    def order_workers(self, epoch: int, op: str, **fields: Any) -> None:
        """To every worker of that epoch."""
        for of, rank in list(self._workers):
            if of == epoch:
                self.order_worker(epoch, rank, op, **fields)

    def start(self, node: str, epoch: int, world: int, **more: Any) -> None:
        """Have the agent of `node` start all ranks of a group."""
        port = _free_port()
        for rank in range(world):
            meeting = {"world": world, "master": ["127.0.0.1", port]}
            self.order_agent(node, "start", epoch=epoch, rank=rank, **meeting, **more)
        self.await_all("joined", world, epoch=epoch)

    def regroup(
        self, node: str, old: int, new: int, rank: int, *, world: int, lost: tuple[int, ...] = (), **more: Any
    ) -> None:
        """Have `rank` of the old epoch go on in a new group, with new processes for the ranks that are `lost`."""
        meeting = {"world": world, "master": ["127.0.0.1", _free_port()], **more}
        self.order_agent(node, "adopt", was=rank, rank=rank, epoch=new)
        for other in lost:
            self.order_agent(node, "start", epoch=new, rank=other, **meeting)
        line = self._workers[new, rank] = self._workers.pop((old, rank))
        line.send({"op": "regroup", "epoch": new, "rank": rank, **meeting})
        self.await_all("joined", world, epoch=new)

    def load(self, epoch: int, world: int, generation: int, step: int, **more: Any) -> list[Said]:
        """Have all ranks load a generation and go on; what they say of it."""
        self.order_workers(epoch, "load", generation=generation, step=step, **more)
        loaded = self.await_all("loaded", world, epoch=epoch)
        self.order_workers(epoch, "go", step=step)
        return loaded

    def round(self, store: Caller, epoch: int, world: int, generation: int, step: int) -> list[Said]:
        """One checkpoint round, from the barrier to the release; the `saved` of every rank."""
        ready = self.await_all("ready", world, epoch=epoch, step=step)
        store.call("generation.begin", token=epoch, generation=generation, step=step, world=world)
        self.order_workers(epoch, "save", generation=generation, step=step)
        saved = self.await_all("saved", world, epoch=epoch, generation=generation)
        shards = [{"rank": s["rank"], **shard} for s in saved for shard in s["shards"]]
        facts = {"generation": generation, "step": step, "epoch": epoch, "world": world, "loss": ready[0]["loss"]}
        store.call("generation.decide", token=epoch, generation=generation, manifest={**facts, "shards": shards})
        store.call("generation.commit", token=epoch, generation=generation)
        self.order_workers(epoch, "release", generation=generation, committed=True)
        return saved

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                stream, _ = self._socket.accept()
                threading.Thread(target=self._listen, args=(Line(stream),), daemon=True).start()

    def _listen(self, line: Line) -> None:
        with contextlib.suppress(OSError):
            while True:
                frame = line.receive()
                self._answer(line, frame)
                with self._news:
                    self._said.append(frame.header)
                    self._news.notify_all()
        line.close()

    def _answer(self, line: Line, frame: Frame) -> None:
        if frame["op"] == "join":
            self._agents[frame["node"]] = line
        elif frame["op"] == "hello":
            self._workers[frame["epoch"], frame["rank"]] = line
        if self.mute:
            return
        reply = {"id": frame.get("id"), "op": frame["op"]}
        if error := self.refuse(frame):
            line.send({**reply, "ok": False, "error": error})
        elif frame.get("id") is not None:
            line.send({**reply, "ok": True, "epoch": 1, "ttl": self.ttl, "heartbeat": 0.1})


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])
