"""The loop of an agent: find the leader, join, heartbeat, obey; without a lease, no worker."""

from __future__ import annotations

import itertools
import os
import random
import select
import signal
import socket
import time

import msgspec

from chaos.inside import emit, recovery_path
from targets.trainer import defects
from targets.trainer.agent.leader import Leader
from targets.trainer.agent.workers import Workers
from targets.trainer.settings import Place, Settings
from targets.trainer.wire import Frame
from targets.trainer.worker.loop import Start

RETRY = 0.1  # seconds between two looks for a leader, with jitter


class Agent:
    """One thread, so that it may fork: waits for the coordinator, for signals, and for the clock."""

    def __init__(self, workers: Workers, place: Place, settings: Settings) -> None:
        self._workers, self._place, self._settings = workers, place, settings
        self._identity = {"node": place.node, "member": place.member}
        self._over = False
        self._gone_by = float("inf")  # when this node goes away
        self._leader: Leader | None = None
        self._wake, self._waker = socket.socketpair()
        self._wake.setblocking(False)
        self._waker.setblocking(False)
        signal.set_wakeup_fd(self._waker.fileno())
        signal.signal(signal.SIGCHLD, lambda *_: None)  # the wake-up is all
        signal.signal(signal.SIGTERM, self._notice)

    def run(self) -> int:
        """Serve one leader after the other until the job is over or this node must leave."""
        for address in itertools.cycle(self._place.coordinators(self._settings)):
            if self._over:
                break
            try:
                self._leader = Leader(address, self._place.address, self._settings.try_timeout)
                self._leader.ask("join", **self._identity, pid=os.getpid())
                self._serve(self._leader)
            except OSError as error:
                if self._workers.ranks:
                    print(f"{self._place.member}: lost {address.host}:{address.port}: {error}", flush=True)
            self._part()
        self._workers.kill("agent-exit")
        return 0

    def _serve(self, leader: Leader) -> None:
        """Until the job is over; OSError when the connection or the lease is lost."""
        joining = time.monotonic() + self._settings.try_timeout
        next_beat = 0.0
        while not self._over:
            now = time.monotonic()
            if now >= self._gone_by:
                return
            if now >= min(self._patience(leader), joining):
                raise TimeoutError("the lease ran out" if leader.expires <= now else "no answer to join")
            if leader.expires < float("inf"):
                joining = float("inf")
                if now >= next_beat:
                    next_beat = now + leader.heartbeat
                    leader.ask("heartbeat", **self._identity, workers=self._workers.ranks)
            wait = min(self._patience(leader), joining, next_beat or joining, self._gone_by) - time.monotonic()
            ready, _, _ = select.select([leader.fileno(), self._wake.fileno()], [], [], max(wait, 0.0))
            if self._wake.fileno() in ready:
                self._on_signal(leader)
            if leader.fileno() in ready:
                for frame in leader.read():
                    self._obey(leader, frame)

    def _patience(self, leader: Leader) -> float:
        """Until when the leader may leave heartbeats unanswered: as long as the lease lasts that its answers renew."""
        unheeded = defects.active(self._settings, defects.ANSWERS_UNHEEDED)
        return float("inf") if unheeded else leader.expires

    def _obey(self, leader: Leader, frame: Frame) -> None:
        match frame["op"]:
            case "join" | "heartbeat" if not frame["ok"]:
                raise ConnectionError(f"{frame['op']} refused: {frame['error']}")
            case "start" if not self._leaving:
                descriptors = (leader.fileno(), self._wake.fileno(), self._waker.fileno())
                self._workers.start(msgspec.convert(frame.header, Start), leader.address, descriptors)
            case "adopt":
                self._workers.adopt(frame["was"], rank=frame["rank"], epoch=frame["epoch"])
            case "stop":
                self._workers.kill(frame.get("reason", "stop"), up_to_epoch=frame["epoch"])
                leader.tell("stopped", epoch=frame["epoch"], node=self._place.node)
                self._over = self._leaving
            case "finish":
                self._workers.kill("finish")
                self._over = True

    def _on_signal(self, leader: Leader) -> None:
        self._wake.recv(4096)
        for exited in self._workers.reap():
            leader.tell("worker.exited", node=self._place.node, **exited._asdict())
        if self._leaving:
            leader.tell("leaving", node=self._place.node, grace=self._settings.grace, epoch=leader.epoch)

    def _notice(self, *_: object) -> None:
        """SIGTERM: this node goes away. With a worker, the coordinator may first save what it has."""
        self._gone_by = min(self._gone_by, time.monotonic() + self._settings.grace)
        self._over = self._leader is None or not self._workers.ranks

    @property
    def _leaving(self) -> bool:
        return self._gone_by < float("inf")

    def _part(self) -> None:
        """Without a leader there is no group to be a member of: end what runs here."""
        leader, self._leader = self._leader, None
        if leader is not None:
            leader.close()
        if self._workers.ranks and not self._leaving:
            with recovery_path("agent.self_fence"):
                epoch = leader.epoch if leader else 0
                emit("lease.expired", resource=f"member/{self._place.node}", holder=self._place.member, epoch=epoch)
                self._workers.kill("lease-expired")
        if self._leaving:
            self._over = True
        if not self._over:
            time.sleep(random.uniform(0.5, 1.0) * RETRY)
