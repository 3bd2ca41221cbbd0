"""One checkpoint round: begin, save, all acknowledged, decide, commit."""

from __future__ import annotations

from typing import Any

import anyio
from anyio import to_thread

from chaos.inside import emit, point
from targets.trainer import defects
from targets.trainer.coordinator.crew import Crew, Group
from targets.trainer.coordinator.failure import Failure
from targets.trainer.coordinator.vault import Vault
from targets.trainer.wire import Refused


async def checkpoint(crew: Crew, vault: Vault, group: Group, step: int, loss: float | None) -> int | None:
    """Save what all ranks hold at `step`; the generation, or None where it was given up and training may go on.

    Raises Failure when a rank is lost on the way: whoever forms the next group settles the rest.
    """
    budget = vault.budget()  # of the whole round: what one part of it spends, no other part can
    generation = await vault.next_generation()
    facts = {"generation": generation, "step": step, "epoch": group.epoch}
    await vault.ask("generation.begin", budget=budget, generation=generation, step=step, world=group.world)
    emit("checkpoint.begun", **facts, world=group.world)
    if defects.active(crew.settings, defects.MARKER_FIRST):
        await _publish(vault, {**facts, "world": group.world, "loss": loss, "shards": _guess(group.world)})
    group.forget("saved", "unsaved")
    share = {"within": budget.seconds, "retries": budget.retries // group.world}
    await crew.members.order_workers("save", generation=generation, step=step, **share)
    try:
        await crew.until(lambda: group.all_said("saved", "unsaved"), crew.settings.stall_checkpoint)
    except TimeoutError:
        late = next(rank.member for rank in group.ranks.values() if not rank.said.keys() & {"saved", "unsaved"})
        crew.fail(Failure(late, "hang", "did not save in time"))
    unsaved = group.said("unsaved")
    budget.charge(sum(said.get("retried", 0) for said in (*unsaved, *group.said("saved"))))
    if unsaved:
        await vault.abort(generation, unsaved[0]["reason"])
        return None
    shards = [{**shard, "rank": said["rank"]} for said in group.said("saved") for shard in said["shards"]]
    emit("checkpoint.prepared", **facts, shards=[shard["name"] for shard in shards])
    # From here on only the store can say whether the round counts. So it goes on even when the lease is lost: a leader
    # that was cut off or frozen comes back to it, and hears from the store that it has been succeeded.
    with anyio.CancelScope(shield=True):
        try:
            await _stand("checkpoint.before_decision", facts)
            await vault.ask(
                "generation.decide",
                budget=budget,
                generation=generation,
                manifest={**facts, "world": group.world, "loss": loss, "shards": shards},
            )
            await _stand("checkpoint.before_commit", facts)
            await vault.ask("generation.commit", budget=budget, generation=generation)
        except Refused as refused:  # a shard that was acknowledged is not there as it was described
            await vault.abort(generation, refused.error)
            return None
    return generation


async def _stand(name: str, facts: dict[str, Any]) -> None:
    # In a thread: while the harness has this leader wait, only the round waits, renewals and heartbeats go on.
    await to_thread.run_sync(lambda: point(name, **facts))


async def _publish(vault: Vault, manifest: dict[str, Any]) -> None:
    await vault.ask("generation.decide", generation=manifest["generation"], manifest=manifest)
    await vault.ask("generation.commit", generation=manifest["generation"])


def _guess(world: int) -> list[dict[str, Any]]:
    """What the deliberate bug `marker-first` believes that the ranks will write."""
    names = [(rank, f"__{rank}_0.distcp") for rank in range(world)] + [(0, ".metadata")]
    return [{"name": name, "rank": rank, "length": 0, "digest": ""} for rank, name in names]
