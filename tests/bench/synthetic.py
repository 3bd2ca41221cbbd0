"""A journal of any length as four ranks of the trainer write it: steps, checkpoints, a killed worker now and then."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import md5
from pathlib import Path
from typing import Any

import msgspec

from chaos.history import Event

RANKS, BATCH, DATASET, INTERVAL, KEEP = 4, 12, 960, 20, 3
KILL_EVERY = 50  # intervals
PARTS = ("model", "optimizer", "rng", "schedule", "data")
NODES = [f"n{r}" for r in range(RANKS)]
SHARDS = [".metadata", *(f"__{r}_0.distcp" for r in range(RANKS))]
FAULT, COORDINATOR = "fault:process.kill", "coordinator-0"


def write(path: Path, count: int) -> None:
    """Write a journal of about `count` events in which every promise is kept."""
    encode = msgspec.json.Encoder().encode
    job = Job()
    with open(path, "wb", buffering=1 << 20) as file:
        for chapter in job.chapters(count):
            for event in chapter:
                file.write(encode(event) + b"\n")


class Job:
    """The course of a training job; every chapter is a list of events."""

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._seq, self._t = 0, 0.0
        self._step, self._generation, self._epoch = 0, 0, 1

    def chapters(self, count: int) -> Iterator[list[Event]]:
        """The start, intervals of training until there are `count` events, the end."""
        self._begin()
        interval = 0
        while self._seq < count:
            interval += 1
            self._train(INTERVAL)
            self._checkpoint()
            if interval % KILL_EVERY == 0:
                self._train(INTERVAL // 2)
                self._kill()
            yield self._take()
        self._end()
        yield self._take()

    def _take(self) -> list[Event]:
        taken, self._events = self._events, []
        return taken

    def _tell(self, source: str, kind: str, /, **data: Any) -> None:
        self._t += 0.001
        t = round(self._t, 6)
        event = Event(seq=self._seq, t=t, wall=round(1.8e9 + t, 3), source=source, kind=kind, data=data)
        self._events.append(event)
        self._seq += 1

    def _begin(self) -> None:
        self._tell("harness", "run.started", experiment="synthetic", seed=7, settings={"nodes": RANKS})
        job = {"dataset": DATASET, "batch": BATCH, "checkpoint_every": INTERVAL, "seed": 7}
        self._tell(COORDINATOR, "job.started", **job)
        for rank in range(RANKS):
            self._start(rank)
        self._form("first start")
        self._tell("harness", "target.ready")
        for _ in range(3):
            self._tell("probe:training.throughput", "probe.sampled", value=120.0)
        self._tell("harness", "baseline.met")
        self._tell("harness", "method.started")
        self._tell(FAULT, "fault.armed", kind="process.kill", settings={"members": {"ranks": [1]}}, hold=None)

    def _start(self, rank: int) -> None:
        about = {"member": f"worker-n{rank}", "role": "worker", "node": f"n{rank}", "rank": rank}
        self._tell(f"worker-n{rank}", "member.started", **about, pid=1000 * self._epoch + rank)

    def _form(self, reason: str) -> None:
        self._tell("store", "epoch.issued", epoch=self._epoch, holder=COORDINATOR, reason=reason)
        self._tell(COORDINATOR, "group.forming", epoch=self._epoch, world=RANKS, nodes=NODES, reason=reason)
        formed = {"epoch": self._epoch, "world": RANKS, "nodes": NODES}
        self._t += 0.3
        self._tell(COORDINATOR, "group.formed", **formed, generation=self._generation, step=self._step)

    def _train(self, steps: int) -> None:
        for _ in range(steps):
            first = self._step * BATCH
            self._step += 1
            self._t += 0.1
            for rank in range(RANKS):
                about = {"step": self._step, "world": RANKS, "rank": rank, "epoch": self._epoch}
                samples = [(first + i) % DATASET for i in range(rank, BATCH, RANKS)]
                more = {"loss": 5.757216334342956 / self._step**0.1, "samples": samples, "data_epoch": first // DATASET}
                self._tell(f"worker-n{rank}", "step.completed", **about, **more)
            if self._step % 5 == 0:
                self._tell("probe:training.throughput", "probe.sampled", value=120.0)

    def _write(self, what: str, op: str) -> None:
        about = {"resource": f"generation/{self._generation}/{what}", "op": op}
        self._tell("store", "write.accepted", **about, token=self._epoch, highest=self._epoch, member=COORDINATOR)

    def _cut(self) -> dict[str, Any]:
        return {"generation": self._generation, "step": self._step, "epoch": self._epoch}

    def _checkpoint(self) -> None:
        self._generation += 1
        self._write("begin", "generation.begin")
        self._tell(COORDINATOR, "checkpoint.begun", **self._cut(), world=RANKS)
        for rank in range(RANKS):
            self._tell(f"worker-n{rank}", "checkpoint.saved", **self._cut(), **self._state(rank))
        for name in SHARDS:
            self._write(f"shard/{name}", "shard.put")
            about = {"generation": self._generation, "name": name, "rank": self._rank(name), "bytes": 548445}
            self._tell("store", "checkpoint.shard_written", **about, digest=self._digest(name))
        self._tell(COORDINATOR, "checkpoint.prepared", **self._cut(), shards=SHARDS)
        self._write("commit", "generation.commit")
        self._tell("store", "checkpoint.committed", **self._cut(), shards=SHARDS, digest=self._digest("manifest"))
        if self._generation > KEEP:
            self._tell("store", "checkpoint.removed", generation=self._generation - KEEP)

    def _rank(self, name: str) -> int:
        return 0 if name == ".metadata" else int(name.split("_")[2])

    def _state(self, rank: int) -> dict[str, Any]:
        state = {part: self._digest(part, rank if part == "rng" else 0) for part in PARTS}
        return {"rank": rank, "state": state, "optimizer_entries": 25}

    def _digest(self, *what: object) -> str:
        return md5(repr((self._generation, *what)).encode()).hexdigest()

    def _kill(self) -> None:
        victim = {"members": ["worker-n1"], "nodes": ["n1"]}
        self._tell(FAULT, "fault.injecting", **victim)
        proof = {"signal": "SIGKILL", "members": [{"member": "worker-n1", "state": "X"}]}
        self._tell(FAULT, "fault.landed", kind="process.kill", **victim, evidence=proof, instant=True)
        gone = {"member": "worker-n1", "role": "worker", "node": "n1", "rank": 1, "code": -9}
        self._tell("harness", "member.exited", **gone)
        about = {"member": "worker-n1", "class": "fail-stop", "reason": "exited with -9"}
        self._tell(COORDINATOR, "failure.detected", **about)
        for rank in (0, 2, 3):
            self._tell(f"agent-n{rank}", "worker.stopped", member=f"worker-n{rank}", rank=rank, epoch=self._epoch)
        stale = {"resource": f"generation/{self._generation + 1}/begin", "op": "generation.begin"}
        self._step -= INTERVAL // 2
        self._epoch += 1
        self._tell(COORDINATOR, "recovery.action", action="cold-restart", epoch=self._epoch, world=RANKS)
        for rank in range(RANKS):
            self._start(rank)
        self._form("worker-n1: fail-stop")
        tokens = {"token": self._epoch - 1, "highest": self._epoch, "reason": "stale-epoch"}
        self._tell("store", "write.rejected", **stale, **tokens, member=COORDINATOR)
        for rank in range(RANKS):
            self._load(rank)
        self._tell(COORDINATOR, "recovery.validated", epoch=self._epoch, step=self._step, loss=3.3)

    def _load(self, rank: int) -> None:
        worker = f"worker-n{rank}"
        self._tell(worker, "checkpoint.loading", generation=self._generation, rank=rank, epoch=self._epoch)
        for name in SHARDS:
            read = {"generation": self._generation, "name": name, "bytes": 548445, "digest": self._digest(name)}
            self._tell(worker, "checkpoint.shard_read", **read)
        self._tell(worker, "checkpoint.loaded", **self._cut(), world=RANKS, **self._state(rank))

    def _end(self) -> None:
        self._tell("harness", "method.ended")
        self._tell(COORDINATOR, "job.completed", step=self._step, loss=2.5)
        self._tell("harness", "target.finished", code=0, member=COORDINATOR)
        self._tell("harness", "final.started", reason="finished")
        self._tell("harness", "run.ended", reason="finished")
