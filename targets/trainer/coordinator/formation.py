"""Forms the group anew: epoch, stop, gather, start, load, agree, go."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial

import anyio
from anyio import to_thread

from chaos.inside import emit, point, recovery_path
from targets.trainer import defects
from targets.trainer.coordinator.crew import Crew, Group
from targets.trainer.coordinator.failure import PATHS, Change, Damage, Failure, GiveUp, actions, detected
from targets.trainer.coordinator.members import Link
from targets.trainer.coordinator.validation import sane
from targets.trainer.coordinator.vault import Chosen, Vault
from targets.trainer.settings import Place

MASTER_PORT = 29400  # of rank 0; a formation uses one of the next 1000, so that a stale worker finds nobody
STOP_LIMIT = 10.0
FORMING, BESIDES = (
    2.0,
    2.0,
)  # times what starting and loading took, and seconds for the end before and the first step after
UNCOMPARED = (
    defects.MIXED_GENERATIONS,
    defects.WARM_KEEPS_NEWER_STATE,
    defects.SPARE_STARTS_AFRESH,
    defects.EACH_RANK_LOOKS,
    defects.REJOIN_STALE_SCHEDULE,
)
"""Deliberate bugs that nobody may notice before the group goes on."""


class Formation:
    """Forms groups under one leadership."""

    def __init__(self, crew: Crew, vault: Vault, place: Place) -> None:
        self._crew, self._vault, self._place = crew, vault, place
        self._nodes = [f"n{i}" for i in range(crew.wanted)]  # of the last group, by rank
        self._formed = 0
        self._rejected = False  # a restore, by the canary, since a group was last formed
        self.excluded: set[int] = set()  # generations on which the ranks did not agree

    async def form(self, change: Change) -> Group:
        """A group that trains, under the lease's epoch; raises Failure when it breaks on the way, GiveUp when there can
        be none.
        """
        crew, epoch = self._crew, self._crew.lease.epoch
        present = sorted(crew.present(), key=_index)
        world = min(len(present), crew.wanted)
        emit("group.forming", epoch=epoch, world=world, nodes=present, reason=change.reason)
        stand = partial(point, "group.forming", epoch=epoch, world=world)
        await to_thread.run_sync(stand, abandon_on_cancel=True)
        await self._vault.settle()
        await self._stop(change)
        nodes = list(change.nodes) or await self._gather(change)
        chosen = await self._vault.choose(self.excluded)
        promoted = set(nodes) - set(self._nodes) if len(nodes) == len(self._nodes) else set()
        with ExitStack() as paths:
            for action in actions(change, len(self._nodes), len(nodes), promoted=bool(promoted)):
                emit("recovery.action", action=action, epoch=epoch, world=len(nodes))
                paths.enter_context(recovery_path(PATHS[action]))
            if change.drained is not None:
                paths.enter_context(recovery_path("preempt.drain"))
            if self._rejected:
                paths.enter_context(recovery_path("restore.canary_rejected"))
            if chosen.passed_over > 1:
                paths.enter_context(recovery_path("checkpoint.rollback_far"))
            if crew.suspicion.parting:
                paths.enter_context(recovery_path("device.exclude"))
                crew.suspicion.parting.clear()
            if crew.pace.parting:
                paths.enter_context(recovery_path("straggler.evict"))
                crew.pace.parting.clear()
            self._nodes = nodes
            group = await self._bring_up(nodes, chosen, promoted, change)
            self._rejected = False
            return group

    async def _bring_up(self, nodes: list[str], chosen: Chosen, promoted: set[str], change: Change) -> Group:
        crew, epoch = self._crew, self._crew.lease.epoch
        group = crew.group = Group(epoch, nodes, chosen.generation, chosen.step)
        crew.progress.restart()
        crew.pace.restart()
        begun = anyio.current_time()
        going_on = await self._start(group, promoted)
        if change.live:
            chosen = self._frontier(group, going_on, chosen)
        facts = {"generation": chosen.generation, "step": chosen.step, **({"live": True} if change.live else {})}
        emit("group.formed", epoch=epoch, world=group.world, nodes=nodes, **facts, micro_batch=crew.micro_batch)
        # Whoever has the state hands it on to those who have not: a collective that all take part in, or nobody does.
        more = {"live": True, "spread": len(going_on) < group.world} if change.live else {}
        await self._load(group, chosen, more)
        crew.pace.cost = FORMING * (anyio.current_time() - begun) + BESIDES
        if change.action != "start":
            emit("recovery.validated", epoch=epoch, step=chosen.step, loss=group.said("loaded")[0].get("loss"))
        await crew.members.order_workers("go", step=chosen.step)
        return group

    async def _stop(self, change: Change) -> None:
        """End the last incarnation on every node that still answers, but for workers that are kept; silent ones lose
        their lease.
        """
        crew, old = self._crew, self._crew.group
        crew.group = None
        crew.members.release_workers()
        upto = old.epoch if old else crew.lease.epoch - 1
        kept = {link.node for link in crew.members.kept}
        doomed = {link for link in crew.busy if link.node not in kept}
        for link in doomed:
            await crew.members.order(link, "stop", epoch=upto, reason=change.reason)
        try:
            await crew.until(lambda: not doomed & crew.busy, STOP_LIMIT)
        except TimeoutError:
            for link in doomed & crew.busy:
                await crew.members.drop(link.member)
            crew.busy -= doomed

    async def _gather(self, change: Change) -> list[str]:
        """The nodes of the next group, by rank: all that are expected, or as many as are there (spares count) once the
        wait is over.
        """
        crew, s, begun = self._crew, self._crew.settings, anyio.current_time()
        first = change.action == "start"
        patience, limit = (s.start_wait, s.start_give_up) if first else (s.lost_wait, s.give_up)
        fewest = crew.shards if s.replicas > 1 else 1  # there must be a whole state
        awaited = {f"n{i}" for i in range(s.nodes)} if first else set(self._nodes)

        def settled() -> bool:
            expected = awaited - crew.departed - set(crew.leaving) - crew.suspicion.excluded - crew.pace.evicted
            waited = anyio.current_time() - max(begun, crew.last_join)
            whole = expected <= crew.present() or (not first and len(crew.present()) >= crew.wanted)
            return len(crew.present()) >= max(s.min_world, fewest) and (whole or waited >= patience)

        try:
            await crew.until(settled, limit)
        except TimeoutError:
            raise GiveUp(f"{len(crew.present())} of at least {s.min_world} nodes after {limit:g} s") from None
        if change.action == "failover":
            for node in sorted(set(self._nodes) - crew.present() - crew.departed, key=_index):
                detected(Failure(f"agent-{node}", "partition", "did not come"))
        nodes = placed([] if first else self._nodes, crew.present(), crew.wanted)
        return nodes[: len(nodes) - len(nodes) % crew.shards] if s.replicas > 1 else nodes

    def _frontier(self, group: Group, going_on: set[int], chosen: Chosen) -> Chosen:
        """The newest live state that a whole replica still holds; it has no saved loss to be compared with."""
        lost = next((number for number in range(self._crew.shards) if number not in going_on), None)
        if lost is not None:
            self._crew.fail(Failure(group.ranks[lost].member, "fail-stop", "gone before its replica could go on"))
        group.step = min(int(group.ranks[number].said["joined"]["step"]) for number in going_on)
        return chosen._replace(step=group.step, loss=None)

    async def _start(self, group: Group, promoted: set[str]) -> set[int]:
        """Have every rank of the group meet: workers that were kept (their ranks are returned), and new ones."""
        crew, members = self._crew, self._crew.members
        self._formed += 1
        port = MASTER_PORT + (group.epoch * 10 + self._formed) % 1000
        facts = {
            "world": group.world, "nodes": group.nodes, "master": [self._place.nodes[group.nodes[0]], port],
            "generation": group.generation, "step": group.step, "micro_batch": crew.micro_batch,
            "shards": min(crew.shards, group.world),
        }  # fmt: skip
        kept = {link.node: link for link in members.workers.values() if link in members.kept}
        going_on: dict[int, Link] = {}
        for number, rank in group.ranks.items():
            agent = members.agents.get(rank.node)
            if agent is None:
                crew.fail(Failure(f"agent-{rank.node}", "fail-stop", "gone before its worker was started"))
            crew.busy.add(agent)
            rank.agent = agent
            crew.progress.note(number, 0, "starting")
            worker = kept.get(rank.node)
            if worker is not None:
                going_on[number] = worker
                await members.order(agent, "adopt", was=worker.rank, rank=number)
            else:
                await members.order(agent, "start", rank=number, promoted=rank.node in promoted, **facts)
        await members.regroup(going_on, **facts)
        # A survivor that cannot be freed is no reason to wait for as long as for a new process.
        await self._all(group, "joined", crew.settings.stall if going_on else crew.settings.stall_start)
        return set(going_on)

    async def _load(self, group: Group, chosen: Chosen, more: dict[str, bool]) -> None:
        """All ranks restore, agree on what they restored, and find it sane."""
        await self._crew.members.order_workers("load", generation=chosen.generation, step=chosen.step, **more)
        await self._all(group, "loaded", self._crew.settings.stall_start)
        loaded = group.said("loaded")
        cuts = {(said["generation"], said["step"], *_common(said.get("state"))) for said in loaded}
        agreed = len(cuts) == 1 and next(iter(cuts))[:2] == (chosen.generation, chosen.step)
        if not agreed and self._crew.settings.defect not in UNCOMPARED:
            self.excluded.add(chosen.generation)
            self._crew.fail(Failure("group", "corruption", f"ranks do not agree on what they restored: {cuts}"))
        skipped = self._crew.settings.defect in (defects.CANARY_SKIPPED, *UNCOMPARED)
        for said in loaded:
            if chosen.generation and not sane(said.get("loss"), chosen.loss) and not skipped:
                self._rejected = True
                member = group.ranks[said["rank"]].member
                self._crew.fail(Damage(member, chosen.generation, "canary", "validation"))

    async def _all(self, group: Group, op: str, limit: float) -> None:
        try:
            await self._crew.until(lambda: group.all_said(op), limit)
        except TimeoutError:
            late = next(rank.member for rank in group.ranks.values() if op not in rank.said)
            self._crew.fail(Failure(late, "hang", f"not {op} in time"))


def placed(last: list[str], present: set[str], wanted: int) -> list[str]:
    """Nodes by rank: whoever was in the last group keeps its rank where a spare takes each lost one's."""
    others = sorted(present - set(last), key=_index)
    stayed = [node for node in last if node in present]
    if len(stayed) + len(others) < wanted or len(last) != wanted:
        return sorted(stayed + others[: wanted - len(stayed)], key=_index)
    spares = iter(others)
    return [node if node in present else next(spares) for node in last]


def _index(node: str) -> int:
    return int(node.removeprefix("n"))


def _common(state: dict[str, str] | None) -> list[str | None]:
    """What all ranks must hold alike."""
    return [(state or {}).get(part) for part in ("model", "optimizer", "schedule", "data")]
