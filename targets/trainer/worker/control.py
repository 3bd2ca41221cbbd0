"""A worker's ties: to the coordinator that leads its group, and to the agent that forked it."""

from __future__ import annotations

import os
import queue
import sys
import threading
from collections.abc import Callable
from typing import Any, NoReturn

from chaos.inside import emit, recovery_path
from targets.trainer import defects
from targets.trainer.settings import Address, Settings
from targets.trainer.wire import Frame, Line

STOPPED = 70  # exit code of a worker that stopped itself


class Regroup(Exception):
    """This process goes on as a rank of another group."""

    def __init__(self, order: Frame) -> None:
        self.order = order
        super().__init__(f"epoch {order['epoch']}")


class Retirement:
    """How a worker ends itself when it has no business any more: fenced off, or without its agent."""

    def __init__(self, member: str, rank: int, epoch: int, settings: Settings) -> None:
        self._facts: dict[str, Any] = {"member": member, "rank": rank, "epoch": epoch}
        self._stays = settings.defect == defects.ORPHANS_SURVIVE

    def identify(self, *, rank: int, epoch: int) -> None:
        """It is that rank of that epoch from now on."""
        self._facts = {**self._facts, "rank": rank, "epoch": epoch}

    def retire(self, reason: str) -> None:
        """End this process from any thread, at once: the main thread may be stuck in a collective."""
        if self._stays:
            return
        with recovery_path("worker.orphan_stop" if reason == "orphan" else "epoch.fence"):
            emit("worker.stopped", **self._facts, reason=reason)
        leave(STOPPED)

    def watch(self, agent: int) -> None:
        """Retire when the agent, who holds the other end of the pipe `agent`, is gone."""

        def wait() -> None:
            while os.read(agent, 1):
                pass
            self.retire("orphan")

        threading.Thread(target=wait, name="agent-watch", daemon=True).start()


class Control:
    """The connection to the coordinator. Two threads: one sends heartbeats, one sorts what comes in."""

    def __init__(self, leader: Address, source: str, identity: dict[str, Any], retirement: Retirement) -> None:
        self.step, self.phase, self.urgent = 0, "starting", False
        self.on_regroup: Callable[[], None] = lambda: None  # called in another thread, once the order has come
        self.spans = (0, 0.0, 0.0)  # steps so far, and the seconds that this rank alone spent: computing, reading
        self._identity, self._retirement = identity, retirement
        self._orders: queue.SimpleQueue[Frame] = queue.SimpleQueue()
        self._closed, self._regroup = threading.Event(), threading.Event()
        self._line = Line.connect(leader, 5.0, source=source)
        self._line.settimeout(None)

    def start(self, heartbeat: float) -> None:
        """Say hello, then heartbeats every `heartbeat` seconds until the connection is gone."""
        self.tell("hello", pid=os.getpid())
        threading.Thread(target=self._beat, args=(heartbeat,), name="heartbeat", daemon=True).start()
        threading.Thread(target=self._listen, name="orders", daemon=True).start()

    def tell(self, op: str, **fields: Any) -> None:
        """Send one message. A coordinator that is gone is no trouble of the worker: its agent decides what to do."""
        try:
            self._line.send({"op": op, **self._identity, **fields})
        except OSError:
            self._closed.set()

    def order(self, *ops: str) -> Frame:
        """The next order that is one of `ops`; waits until it comes, or until this process is stopped.

        Raises Regroup when that is what was ordered instead.
        """
        while (frame := self._orders.get())["op"] not in ops:
            if frame["op"] == "regroup":
                raise Regroup(frame)
        return frame

    def regroups(self, timeout: float) -> bool:
        """Whether the order to go on in another group has come, or comes within `timeout` seconds."""
        return self._regroup.wait(timeout)

    def identify(self, *, rank: int, epoch: int) -> None:
        """Speak as that rank of that epoch from now on."""
        self._identity = {**self._identity, "rank": rank, "epoch": epoch}
        self.step, self.phase, self.urgent, self.spans = 0, "starting", False, (0, 0.0, 0.0)
        self._regroup.clear()

    def _beat(self, period: float) -> None:
        while not self._closed.wait(period):
            self.tell("heartbeat", step=self.step, phase=self.phase, spans=self.spans)

    def _listen(self) -> None:
        try:
            while True:
                frame = self._line.receive()
                if frame.get("ok") is False and frame["error"] == "stale-epoch":
                    self._retirement.retire("stale-epoch")
                elif frame.get("op") == "cut":
                    self.urgent = True
                elif "ok" not in frame.header:
                    self._orders.put(frame)
                    if frame["op"] == "regroup":
                        self._regroup.set()
                        self.on_regroup()
        except OSError:
            self._closed.set()


def leave(code: int) -> NoReturn:
    """End at once: threads in native code neither hear of an orderly exit nor let it finish."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
