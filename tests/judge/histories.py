"""Histories written by hand: a tape on which a training job plays its part, event by event."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from chaos.history import Event, History

DATASET, BATCH, INTERVAL, SECONDS = 240, 12, 20, 0.1

Tamper = Callable[[int], dict[str, Any]]  # rank -> fields that replace the right ones


def nothing(rank: int) -> dict[str, Any]:
    return {}


def order(step: int, batch: int = BATCH, dataset: int = DATASET) -> tuple[int, list[int]]:
    """The data epoch and the samples of a step in a job without faults: each pass in another order."""
    at = (step - 1) * batch
    return at // dataset, [(i % dataset) * 7 % dataset for i in range(at, at + batch)]


def shifted(step: int, world: int = 4) -> Tamper:
    """The samples of another step than the one that is executed."""
    data_epoch, samples = order(step)
    return lambda rank: {"samples": samples[rank::world], "data_epoch": data_epoch}


class Tape:
    """What was recorded so far. Time goes on by a millisecond with each event, or by `wait`."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.t, self.count = 0.0, -1

    def add(self, kind: str, source: str = "harness", /, *, at: float | None = None, **data: Any) -> int:
        """Record one event; its number."""
        self.t += 0.001
        self.count += 1
        t = self.t if at is None else at
        self.events.append(Event(self.count, t, 1e9 + max(self.t, t), source, kind, data))
        return self.count

    def drop(self, when: Callable[[Event], bool]) -> Self:
        """Take events off the record again."""
        self.events = [e for e in self.events if not when(e)]
        return self

    def wait(self, seconds: float) -> Self:
        self.t += seconds
        return self

    @property
    def history(self) -> History:
        return History(self.events)

    # --- what a job does

    def start(self, world: int = 4, steps: int = 60) -> Tape:
        self.add("run.started", experiment="e", seed=7, slots=[])
        for rank in range(world):
            self.add("member.started", f"agent-n{rank}", member=f"agent-n{rank}", role="agent", node=f"n{rank}",
                     rank=None, pid=100 + rank)  # fmt: skip
            self.add("member.started", f"worker-n{rank}", member=f"worker-n{rank}", role="worker", node=f"n{rank}",
                     rank=rank, pid=200 + rank)  # fmt: skip
        self.add("job.started", "coordinator-0", steps=steps, dataset=DATASET, batch=BATCH, checkpoint_every=INTERVAL)
        self.add("epoch.issued", "store", epoch=1, holder="coordinator-0", reason="first start")
        self.form(1, world)
        self.add("baseline.met")
        self.add("method.started")
        return self

    def form(self, epoch: int, world: int, generation: int = 0, step: int = 0, action: str | None = None) -> int:
        nodes = [f"n{r}" for r in range(world)]
        self.add("group.forming", "coordinator-0", epoch=epoch, world=world, nodes=nodes, reason="")
        if action:
            self.add("recovery.action", "coordinator-0", action=action, epoch=epoch, world=world)
        return self.add("group.formed", "coordinator-0", epoch=epoch, world=world, nodes=nodes, generation=generation,
                        step=step)  # fmt: skip

    def train(self, first: int, last: int, *, epoch: int = 1, world: int = 4, tamper: Tamper = nothing) -> Tape:
        for step in range(first, last + 1):
            self.wait(SECONDS)
            self.step(step, epoch=epoch, world=world, tamper=tamper)
        return self

    def step(self, step: int, *, epoch: int = 1, world: int = 4, ranks: Any = None, tamper: Tamper = nothing) -> None:
        data_epoch, samples = order(step)
        for rank in range(world) if ranks is None else ranks:
            facts: dict[str, Any] = {
                "step": step, "rank": rank, "world": world, "epoch": epoch, "loss": repr(5 / (1 + step)),
                "samples": samples[rank::world], "data_epoch": data_epoch,
            }  # fmt: skip
            self.add("step.completed", f"worker-n{rank}", **facts | tamper(rank))

    def state(self, step: int, rank: int) -> dict[str, str]:
        return {part: f"{part}@{step}" for part in ("model", "optimizer", "schedule", "data")} | {
            "rng": f"rng@{step}/{rank}"
        }

    def shards(self, world: int) -> list[str]:
        return [f"shard-{rank}" for rank in range(world)]

    def begin(self, generation: int, step: int, *, epoch: int = 1, world: int = 4) -> Tape:
        self.add("checkpoint.begun", "coordinator-0", generation=generation, step=step, epoch=epoch, world=world)
        for rank in range(world):
            self.add("checkpoint.saved", f"worker-n{rank}", generation=generation, step=step, rank=rank, epoch=epoch,
                     state=self.state(step, rank), optimizer_entries=30)  # fmt: skip
        return self

    def write(self, generation: int, rank: int, *, epoch: int = 1, highest: int | None = None) -> int:
        digest = f"bytes-{generation}-{rank}"
        self.add("checkpoint.shard_written", "store", generation=generation, name=f"shard-{rank}", rank=rank, bytes=9,
                 digest=digest)  # fmt: skip
        return self.add("write.accepted", "store", resource=f"generation/{generation}/shard/{rank}", op="shard.put",
                        token=epoch, highest=highest or epoch, member=f"worker-n{rank}")  # fmt: skip

    def commit(self, generation: int, step: int, *, epoch: int = 1, world: int = 4, **more: Any) -> int:
        facts: dict[str, Any] = {
            "generation": generation,
            "step": step,
            "epoch": epoch,
            "shards": self.shards(world),
            "digest": "m",
        }
        return self.add("checkpoint.committed", "store", **facts | more)

    def save(self, generation: int, step: int, *, epoch: int = 1, world: int = 4) -> int:
        """A whole checkpoint round; the number of the commit."""
        self.begin(generation, step, epoch=epoch, world=world)
        for rank in range(world):
            self.write(generation, rank, epoch=epoch)
        return self.commit(generation, step, epoch=epoch, world=world)

    def load(
        self,
        generation: int,
        step: int,
        *,
        epoch: int,
        world: int = 4,
        was: int | None = None,
        tamper: Tamper = nothing,
    ) -> Tape:
        """All ranks load a generation that `was` saved by that many ranks."""
        for rank in range(world):
            source = f"worker-n{rank}"
            self.add("checkpoint.loading", source, generation=generation, rank=rank, epoch=epoch)
            for shard in range(was or world):
                self.add("checkpoint.shard_read", source, generation=generation, name=f"shard-{shard}", bytes=9,
                         digest=f"bytes-{generation}-{shard}")  # fmt: skip
            state = self.state(step, rank)
            if was not in (None, world):
                del state["rng"]
            facts: dict[str, Any] = {
                "generation": generation, "step": step, "rank": rank, "world": world, "epoch": epoch, "state": state,
                "optimizer_entries": 30,
            }  # fmt: skip
            self.add("checkpoint.loaded", source, **facts | tamper(rank))
        return self

    # --- what breaks it

    def fault(
        self, name: str, *members: str, instant: bool = True, nodes: tuple[str, ...] = (), hold: float | None = None
    ) -> int:
        source = f"fault:{name}"
        self.add("fault.armed", source, kind=name, hold=hold)
        self.add("fault.injecting", source, members=list(members), nodes=list(nodes))
        return self.add("fault.landed", source, kind=name, members=list(members), nodes=list(nodes), instant=instant,
                        evidence={"state": "X"})  # fmt: skip

    def heal(self, name: str, **more: Any) -> int:
        return self.add("fault.healed", f"fault:{name}", kind=name, evidence={"state": "S"}, seconds=0.1, **more)

    def detect(self, member: str, kind: str = "fail-stop") -> int:
        return self.add("failure.detected", "coordinator-0", member=member, reason="gone", at=None, **{"class": kind})

    def reform(
        self, epoch: int, world: int, generation: int, step: int, *, was: int | None = None,
        action: str = "cold-restart", tamper: Tamper = nothing,
    ) -> Tape:  # fmt: skip
        """A new incarnation under a new epoch that has loaded."""
        self.add("epoch.issued", "store", epoch=epoch, holder="coordinator-0", reason=action)
        self.wait(0.5).form(epoch, world, generation, step, action)
        if generation:
            self.wait(0.2).load(generation, step, epoch=epoch, world=world, was=was, tamper=tamper)
        return self

    def done(self, step: int) -> Tape:
        self.add("job.completed", "coordinator-0", step=step, loss=0.1)
        self.add("target.finished", code=0, member="coordinator-0")
        self.add("final.started")
        self.add("run.ended", reason="finished")
        return self


def killed_and_restarted(resume: Tamper = nothing, load: Tamper = nothing) -> Tape:
    """Rank 1 is killed at step 30 and the group goes on from generation 1 (step 20) to step 60, all as it should be."""
    tape = Tape().start().train(1, 20)
    tape.save(1, 20)
    tape.train(21, 30)
    tape.fault("process.kill", "worker-n1")
    tape.wait(0.3).detect("worker-n1")
    tape.reform(2, 4, 1, 20, tamper=load).train(21, 40, epoch=2, tamper=resume)
    tape.save(2, 40, epoch=2)
    tape.train(41, 60, epoch=2, tamper=resume)
    tape.save(3, 60, epoch=2)
    return tape.done(60)
