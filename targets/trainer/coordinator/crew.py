"""What a leader knows of its group, and the one place where it waits: everything that a member says is taken in here,
and everything that goes wrong is noticed here.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable
from typing import NoReturn

import anyio

from chaos.inside import emit
from targets.trainer import defects
from targets.trainer.coordinator.detector import Heartbeats, Progress
from targets.trainer.coordinator.failure import Damage, Failure, detected, exit_class
from targets.trainer.coordinator.lease import Lease
from targets.trainer.coordinator.members import Link, Members
from targets.trainer.coordinator.pace import Pace
from targets.trainer.coordinator.pause import Pause
from targets.trainer.coordinator.suspicion import Suspicion
from targets.trainer.settings import Settings
from targets.trainer.wire import Frame
from targets.trainer.worker.data import MICRO_BATCH

TICK = 0.05  # at least this often somebody looks who is silent
EXIT_GRACE = 0.3  # for the agent's word on how a worker ended, once its connection is closed
BROKEN_GRACE = 1.5  # for the cause, once a collective failed: a dead peer is found by its own silence or exit


class Rank:
    """A worker of the current incarnation, as far as the leader knows."""

    def __init__(self, node: str) -> None:
        self.node, self.member = node, f"worker-{node}"
        self.agent: Link | None = None  # that started it
        self.said: dict[str, Frame] = {}  # the last message by op
        self.closed: float | None = None  # since when its connection is closed
        self.broken: float | None = None  # since when its collectives fail


class Group:
    """One incarnation."""

    def __init__(self, epoch: int, nodes: Iterable[str], generation: int, step: int) -> None:
        self.epoch, self.generation, self.step = epoch, generation, step
        self.ranks = {rank: Rank(node) for rank, node in enumerate(nodes)}

    @property
    def nodes(self) -> list[str]:
        return [rank.node for rank in self.ranks.values()]

    @property
    def world(self) -> int:
        return len(self.ranks)

    def on(self, node: str) -> Rank | None:
        """The rank on that node."""
        return next((rank for rank in self.ranks.values() if rank.node == node), None)

    def all_said(self, *ops: str) -> bool:
        """Whether every rank said one of these."""
        return all(any(op in rank.said for op in ops) for rank in self.ranks.values())

    def said(self, op: str) -> list[Frame]:
        """The message `op` of every rank that said it, by rank."""
        return [rank.said[op] for rank in self.ranks.values() if op in rank.said]

    def forget(self, *ops: str) -> None:
        """Start waiting for these anew."""
        for rank in self.ranks.values():
            for op in ops:
                rank.said.pop(op, None)


class Crew:
    """Members and group under one leadership."""

    def __init__(self, settings: Settings, lease: Lease) -> None:
        self.settings, self.lease = settings, lease
        wall = defects.active(settings, defects.LEASE_BY_WALL_CLOCK)
        self._heartbeats = Heartbeats(settings, time.time if wall else anyio.current_time)
        self.progress = Progress(settings, anyio.current_time)
        self.members = Members(settings, lease, self._heartbeats)
        self._pause = Pause(settings, self._heartbeats, self.members)
        self.suspicion, self.pace = Suspicion(settings), Pace(settings)
        self.micro_batch = MICRO_BATCH  # samples of one forward; less once memory ran out
        self.group: Group | None = None
        self.busy: set[Link] = set()  # agents that may have workers
        self.leaving: dict[str, float] = {}  # nodes under notice, and when their time is up
        self.departed: set[str] = set()  # nodes that left after a notice: nobody waits for them
        self.last_join = -math.inf
        self.ended = False  # the job: whoever goes now, may

    def keep(self, failure: Failure) -> None:
        """Have the workers that this failure did not hit go on in the next group, if it is told so."""
        workers, agents = self.members.workers.values(), self.members.agents
        role, _, node = failure.member.partition("-")
        hit = None if (role, failure.kind) == ("worker", "transient") else node  # everybody lives, nothing arrived
        self.members.kept = {link for link in workers if link.node in agents and link.node != hit}

    def keep_all(self) -> None:
        """Have all workers go on in the next group."""
        self.members.kept = set(self.members.workers.values())

    def keep_only(self, nodes: Collection[str]) -> None:
        """Of those that were kept, only the workers on these nodes."""
        self.members.kept = {link for link in self.members.kept if link.node in nodes}

    @property
    def wanted(self) -> int:
        """How many ranks a whole group has; who is over is a spare."""
        return self.settings.nodes - self.settings.spares

    @property
    def shards(self) -> int:
        """How many ranks a replica has."""
        return self.wanted // self.settings.replicas

    def present(self) -> set[str]:
        """Nodes that a group may be made of: heard, and hearing."""
        hearing = {node for node, link in self.members.agents.items() if link.hears}
        return hearing - set(self.leaving) - self.suspicion.excluded - self.pace.evicted

    async def until(self, condition: Callable[[], bool], limit: float = math.inf) -> None:
        """Wait until `condition` holds, hearing members; raises Failure when the group cannot go on, Deposed when the
        lease runs out, TimeoutError after `limit` seconds.
        """
        end = anyio.current_time() + limit
        while not condition():
            said = None
            with anyio.move_on_after(TICK):
                said = await self.members.inbox.get()
            self.lease.check()  # before anything is heard: those whom a lost lease dismissed are no failures
            if said is not None:
                self._hear(*said)
            await self._look()
            if anyio.current_time() > end:
                raise TimeoutError

    def fail(self, failure: Failure) -> NoReturn:
        """Record the failure, then raise it."""
        raise failure if defects.active(self.settings, defects.FAILURE_KEPT_QUIET) else detected(failure)

    def _hear(self, link: Link, frame: Frame) -> None:
        if link.agent:
            self._hear_agent(link, frame)
        elif self.group is not None and link.rank in self.group.ranks and self._of_group(link, frame):
            self._hear_worker(link, frame, self.group.ranks[link.rank])

    def _of_group(self, link: Link, frame: Frame) -> bool:
        """Whether a worker says it as one of this group; it may have said it as one of the last."""
        return self.group is not None and link.epoch == frame.get("epoch", link.epoch) == self.group.epoch

    def _hear_agent(self, link: Link, frame: Frame) -> None:
        op, group = frame["op"], self.group
        if op == "hears":
            self.last_join = anyio.current_time()
        elif op == "join":
            self.departed.discard(link.node)
            rank = group and group.on(link.node)
            if rank and rank.agent is not link:  # else: heard late, after the start
                self.fail(Failure(link.member, "transient", "joined again with nothing"))
        elif op == "stopped":
            self.busy.discard(link)
        elif op == "leaving" and link.node not in self.leaving:
            self.leaving[link.node] = anyio.current_time() + frame["grace"]
            detected(Failure(link.member, "preempted", "notice of preemption"))
        elif op == "worker.exited" and group is not None and frame["epoch"] == group.epoch:
            rank = group.ranks.get(frame["rank"])
            if rank is not None and rank.node == link.node and "done" not in rank.said:
                kind = exit_class(frame["code"], frame.get("cause"))
                self.fail(Failure(rank.member, kind, f"exited with {frame['code']}"))
        elif op == "gone":
            self._agent_gone(link, frame["current"])

    def _agent_gone(self, link: Link, current: bool) -> None:
        self.busy.discard(link)
        announced = self.leaving.pop(link.node, None) is not None
        if announced:
            self.departed.add(link.node)
        if current and link.hears and not self.ended:
            self._lost(Failure(link.member, "fail-stop", "connection closed"), link, announced=announced)

    def _lost(self, failure: Failure, link: Link, *, announced: bool = False) -> None:
        """A node is gone: the end of the group that it is part of; else a fact to record, unless it was announced."""
        rank = self.group and self.group.on(link.node)
        if rank and rank.agent is link:
            self.fail(failure)
        if not announced:
            detected(failure)

    def _hear_worker(self, link: Link, frame: Frame, rank: Rank) -> None:
        op, now = frame["op"], anyio.current_time()
        assert link.rank is not None
        if op == "heartbeat":
            self.progress.note(link.rank, frame["step"], frame["phase"])
            self._compare(link.rank, frame)
            if frame["phase"] == "broken" and rank.broken is None:
                rank.broken = now
        elif op == "gone":
            if frame["current"] and "done" not in rank.said:
                rank.closed = now
        elif op in ("suspect", "corrupted"):
            self._suspect(frame, fatal=op == "corrupted")
        elif op == "unloaded":
            self.fail(Damage(rank.member, frame["generation"], frame.get("name", ""), frame["reason"]))
        else:
            rank.said[op] = frame

    def _suspect(self, frame: Frame, *, fatal: bool) -> None:
        """A rank was seen to compute wrong values. All ranks say so; once counts."""
        group = self.group
        assert group is not None
        rank = group.ranks[frame["culprit"]]
        if not self.suspicion.name(rank.node, group.epoch, frame["step"]):
            return
        reason = frame.get("reason", "its result changed when the step was repeated")
        failure = detected(Failure(rank.member, "corruption", f"step {frame['step']}: {reason}"))
        if self.suspicion.guilty(rank.node, len(self.present())):
            steps = self.suspicion.evidence(rank.node)
            emit("device.excluded", node=rank.node, member=rank.member, epoch=group.epoch, steps=steps)
            self.suspicion.exclude(rank.node)
        if fatal:
            raise failure

    def _compare(self, number: int, frame: Frame) -> None:
        """A slow rank is no failure: it is told, and parted with at the next commit where that pays."""
        group, spans = self.group, frame.get("spans")
        assert group is not None
        if spans is None:
            return
        self.pace.note(number, spans)
        slow = self.pace.look(group.world)
        if slow is None:
            return
        rank = group.ranks[slow.rank]
        failure = detected(Failure(rank.member, "straggler", slow.reason))
        if defects.active(self.settings, defects.STRAGGLER_RESTARTED):
            raise failure
        gain = self.pace.gain(slow, group.world, self.settings.steps - frame["step"])
        if self.pace.pays(gain) and len(self.present()) > self.settings.min_world:
            facts = {"gain": round(gain, 3), "cost": round(self.pace.cost, 3), "step": frame["step"]}
            emit("straggler.evicted", node=rank.node, member=rank.member, epoch=group.epoch, **facts)
            self.pace.evict(rank.node)

    async def _look(self) -> None:
        """Notice silence, closed connections without a word of the agent, broken collectives, and stalls."""
        hasty = defects.active(self.settings, defects.RESTART_ON_TRANSIENT)
        for silence in self._heartbeats.silent():
            if hasty or (silence.confirmed and not self._pause.covers(silence)):
                await self._confirm(silence.member, silence.seconds)
            elif not silence.confirmed:
                emit("failure.suspected", member=silence.member, reason="silent", silent=round(silence.seconds, 3))
        if self.group is None:
            self._pause.drop()
            return
        if self._pause.look(self.group.epoch, self.group.nodes):
            self.progress.forgive()
        now = anyio.current_time()
        for rank in self.group.ranks.values():
            if rank.closed is not None and now - rank.closed > EXIT_GRACE:
                self.fail(Failure(rank.member, "fail-stop", "connection closed"))
        blind = defects.active(self.settings, defects.NO_DETECTION)
        for rank in self.group.ranks.values():
            if rank.broken is not None and now - rank.broken > BROKEN_GRACE and not blind:
                self.fail(Failure(rank.member, "transient", "a collective failed"))
        stalled = self.progress.stalled()
        if stalled is not None and not self._pause.stands:
            number, seconds = stalled
            self.fail(Failure(self.group.ranks[number].member, "hang", f"no progress for {seconds:.1f} s"))

    async def _confirm(self, member: str, seconds: float) -> None:
        link = await self.members.drop(member)
        if link is None:  # it went by itself meanwhile
            self._heartbeats.forget(member)
            return
        reason = f"silent for {seconds:.1f} s"
        if link.agent:
            emit("lease.expired", resource=f"member/{link.node}", holder=member, epoch=self.lease.epoch)
            self.busy.discard(link)
            self._lost(Failure(member, "partition", reason), link)
        elif self.group is not None and link.epoch == self.group.epoch:
            self.fail(Failure(member, "hang", reason))
