"""One term of leadership: forms groups, has them train and save, and answers every failure with the smallest action."""

from __future__ import annotations

import anyio

from chaos.inside import emit
from targets.trainer import defects
from targets.trainer.coordinator.crew import Crew, Group
from targets.trainer.coordinator.failure import WARM, Change, Damage, Failure, GiveUp
from targets.trainer.coordinator.formation import Formation
from targets.trainer.coordinator.replicas import completed, whole
from targets.trainer.coordinator.round import checkpoint
from targets.trainer.coordinator.validation import agreed
from targets.trainer.coordinator.vault import Vault

FAREWELL = 2.0  # for the agents to end once the job has
MARGIN = 1.5  # of a round's last duration: what an urgent one is thought to take
FIRST_ROUND = 1.0  # seconds that a round is thought to take before there was one


class Leader:
    """Leads until the job has ended. Deposed may be raised at every wait."""

    def __init__(self, crew: Crew, vault: Vault, formation: Formation) -> None:
        self._crew, self._vault, self._formation = crew, vault, formation
        self._failures = 0  # incarnations in a row without a commit
        self._round_seconds = FIRST_ROUND
        self._terms_own_epoch = True  # the lease came with an epoch: the first group needs no other

    async def lead(self, change: Change) -> int:
        """The exit code for the job: 0 completed, 1 failed."""
        s = self._crew.settings
        if change.action == "start":
            emit(
                "job.started",
                steps=s.steps, dataset=s.dataset, batch=s.batch, checkpoint_every=s.checkpoint_every, seed=s.seed,
            )  # fmt: skip
        try:
            while True:
                following = await self._incarnation(change)
                if following is None:
                    return 0
                change = following
        except GiveUp as reason:
            emit("job.failed", reason=str(reason))
            await self._end("failed")
            return 1

    async def _incarnation(self, change: Change) -> Change | None:
        """One group from its formation to its end: why there must be another, or None once the job is done."""
        group = None
        try:
            if not self._terms_own_epoch:
                await self._crew.lease.advance(change.reason)
            self._terms_own_epoch = False
            group = await self._formation.form(change)
            return await self._train(group)
        except Failure as failure:
            following = await self._answer(failure, group)
        self._failures += 1
        endless = any(defects.active(self._crew.settings, d) for d in (defects.RESTART_LOOP, defects.NEVER_GIVES_UP))
        if self._failures > self._crew.settings.max_failures and not endless:
            raise GiveUp(f"{self._failures} incarnations without a commit; the last: {following.reason}")
        return following

    async def _answer(self, failure: Failure, group: Group | None) -> Change:
        """The action for a failure; that the group must shrink shows when it is formed.

        Only survivors of a group that had come as far as training can be told to go on: what fails on the way to one,
        a warm restart included, is answered from the beginning.
        """
        crew = self._crew
        crew.members.kept.clear()
        if group is not None and failure.kind in WARM:
            crew.keep(failure)
            nodes = whole(group.nodes, {link.node for link in crew.members.kept}, crew.shards)
            if nodes and len(nodes) < group.world:
                crew.keep_only(nodes)
                return Change("replica-leave", str(failure), nodes=tuple(nodes))
            if crew.settings.restart == "warm":
                return Change("warm-restart", str(failure))
            crew.members.kept.clear()
        if isinstance(failure, Damage) and defects.active(crew.settings, defects.UNREADABLE_STARTS_AFRESH):
            self._formation.excluded.update(range(failure.generation + 1))
        if failure.kind == "out-of-memory" and not defects.active(crew.settings, defects.OOM_RESTART_LOOP):
            return self._reconfigure(failure)
        if failure.kind != "corruption":
            return Change("cold-restart", str(failure))
        if isinstance(failure, Damage):
            await self._vault.damaged(failure.generation, failure.name, failure.reason)
        return Change("rollback", str(failure))

    def _reconfigure(self, failure: Failure) -> Change:
        """Smaller forwards, and more of them: the same global batch in less memory, which would run out again."""
        crew = self._crew
        if crew.micro_batch == 1:
            raise GiveUp(f"memory runs out with forwards of one sample: {failure}")
        crew.micro_batch = -(-crew.micro_batch // 2)
        emit("memory.reconfigured", micro_batch=crew.micro_batch, epoch=crew.lease.epoch)
        return Change("reconfigure", str(failure))

    async def _train(self, group: Group) -> Change | None:
        crew, s = self._crew, self._crew.settings
        if group.step >= s.steps:  # an earlier leader saved the last step, and went
            await self._complete(group, group.step, group.said("loaded")[0].get("loss"))
            return None
        while True:
            if not await self._cut(group):
                return Change("shrink", f"{self._noticed(group)} leaves before a checkpoint could be made")
            ready = group.said("ready")
            step, loss = ready[0]["step"], ready[0].get("loss")
            canary = agreed(crew, group, ready)
            if any(said["step"] != step for said in ready):
                crew.fail(Failure("group", "corruption", f"ranks cut at steps {[said['step'] for said in ready]}"))
            begun = anyio.current_time()
            generation = await checkpoint(crew, self._vault, group, step, canary)
            group.forget("ready")
            if generation is not None:
                self._failures, self._round_seconds = 0, anyio.current_time() - begun
                self._formation.excluded.clear()
            if step < s.steps:
                following = self._boundary(group) if generation is not None else None
                if following is not None:
                    return following
            elif generation is None:
                crew.fail(Failure("group", "transient", "the last checkpoint was not saved"))
            await crew.members.order_workers("release", generation=generation, committed=generation is not None)
            if step >= s.steps:
                await self._complete(group, step, loss)
                return None

    async def _cut(self, group: Group) -> bool:
        """Wait until every rank stands at a cut, asking for one where a node leaves; False when time is too short."""
        asked = False
        while not group.all_said("ready"):
            await self._crew.until(
                lambda: group.all_said("ready") or (not asked and self._noticed(group) is not None)  # noqa: B023
            )
            node = self._noticed(group)
            if node is not None and not asked and not group.all_said("ready"):
                if self._crew.leaving[node] - anyio.current_time() < self._round_seconds * MARGIN:
                    return False
                asked = True
                await self._crew.members.order_workers("cut")
        return True

    def _noticed(self, group: Group) -> str | None:
        """A node of the group that is about to leave."""
        return next((node for node in group.nodes if node in self._crew.leaving), None)

    def _boundary(self, group: Group) -> Change | None:
        """What a commit is the moment for: to part with a node that leaves, to take in one that came."""
        node = self._noticed(group)
        if node is not None:
            return Change("shrink", f"{node} leaves", drained=node)
        parting = sorted(self._crew.suspicion.parting & set(group.nodes))
        if parting:
            return Change("shrink", f"{', '.join(parting)} computes wrong values")
        slow = sorted(self._crew.pace.parting & set(group.nodes))
        if slow:
            return Change("shrink", f"{', '.join(slow)} is slow, and the job is shorter without it")
        newcomers = sorted(self._crew.present() - set(group.nodes))
        crew = self._crew
        if crew.settings.replicas > 1:
            nodes = completed(group.nodes, newcomers, crew.shards, crew.wanted)
            if len(nodes) == group.world:
                return None
            crew.keep_all()
            return Change("replica-rejoin", f"{', '.join(nodes[group.world :])} joined", nodes=tuple(nodes))
        if newcomers and group.world < crew.wanted:
            return Change("grow", f"{', '.join(newcomers)} joined")
        return None

    async def _complete(self, group: Group, step: int, loss: float | None) -> None:
        try:
            await self._crew.until(lambda: group.all_said("done"), self._crew.settings.stall)
        except TimeoutError:
            self._crew.fail(Failure("group", "hang", "the last step is saved, but not every rank is done"))
        emit("job.completed", step=step, loss=loss)
        await self._end("completed")

    async def _end(self, outcome: str) -> None:
        crew = self._crew
        crew.group, crew.ended = None, True
        await self._vault.ask("job.finish", outcome=outcome)
        for link in list(crew.members.agents.values()):
            await crew.members.order(link, "finish")
        try:
            await crew.until(lambda: not crew.members.agents, FAREWELL)
        except TimeoutError:
            return
