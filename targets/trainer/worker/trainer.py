"""Optimizer steps whose result does not depend on the world size, up to rounding, and that are looked at before they
count: a step that looks wrong is computed again, and only then is it said what was wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from chaos.inside import emit, recovery_path
from targets.trainer import defects
from targets.trainer.settings import Settings
from targets.trainer.worker.checkpoint import Restored
from targets.trainer.worker.data import MICRO_BATCH, Batch, Corpus, Sampler, micro_batches, rounds
from targets.trainer.worker.group import Group
from targets.trainer.worker.instruments import Instruments
from targets.trainer.worker.miscounts import resumed
from targets.trainer.worker.model import build, loss_sum
from targets.trainer.worker.monitors import EXPLODING, NAN, NORMAL, PLATEAU, Monitors, Reading
from targets.trainer.worker.scrub import Scrub
from targets.trainer.worker.state import TrainState, rng, set_rng

CANARY = 4  # samples of the canary batch: the first ones of the data set
FIRST, AGAIN, ELSEWHERE = 0, 1, 2  # attempts at a step: as it is, on the same device, on the next one


class Done(NamedTuple):
    """What one step did."""

    loss: float | None  # the mean over the global batch, the same on every rank; none of a batch that was left out
    samples: list[int]  # that this rank consumed
    data_epoch: int
    urgent: bool  # a rank was asked for a cut: all ranks see it after the same step
    attempt: int = FIRST  # whose result counts
    read: int = 1  # of the batch, that was used
    quarantined: list[int] = []  # samples of this rank that were left out
    blamed: int | None = None  # the rank that computed something else the first time

    def facts(self) -> dict[str, Any]:
        """For `step.completed`."""
        facts: dict[str, Any] = {"loss": self.loss, "samples": self.samples, "data_epoch": self.data_epoch}
        if self.attempt:
            facts["attempt"] = self.attempt
        if self.read > 1:
            facts["read"] = self.read
        if self.quarantined:
            facts["quarantined"] = self.quarantined
        return facts


class Corrupted(Exception):
    """A rank computes or holds wrong values, and this step has no right result: nothing of it may be kept."""

    def __init__(self, rank: int, reason: str) -> None:
        self.rank, self.reason = rank, reason
        super().__init__(f"rank {rank}: {reason}")


class _Pass(NamedTuple):
    """One forward and backward, as all ranks see it."""

    readings: list[Reading]
    loss: float
    urgent: bool


class Trainer:
    """The training job of one rank: `state` advances by one global batch a step."""

    def __init__(
        self, group: Group, corpus: Corpus, settings: Settings, *, epoch: int = 0, micro_batch: int = MICRO_BATCH
    ) -> None:
        self.step = self.resumed_at = 0
        self.spans = (0, 0.0, 0.0)  # steps so far, seconds of this rank's own computation, and of reading its batches
        self._group, self._corpus, self._settings, self._epoch = group, corpus, settings, epoch
        self._micro_batch = micro_batch
        self._model = build(group.mesh, settings.seed)
        self.state = TrainState(self._model, group, seed=settings.seed, steps=settings.steps)
        self._sampler = Sampler(settings.dataset, settings.batch, settings.seed)
        self._instruments, self._monitors, self._scrub = Instruments(self._model), Monitors(), Scrub(self.state)

    def resume(self, restored: Restored) -> None:
        """Go on where a restored state ends."""
        self.step = self.resumed_at = restored.step
        if self._settings.defect == defects.DOUBLE_COUNT_AFTER_RESIZE and restored.world != self._group.world:
            settings = self._settings
            self._sampler = Sampler(settings.dataset, settings.batch, settings.seed, stale_stride=restored.world)
        if restored.step:
            kept = self._sampler, self.state.cursor
            self._sampler, self.state.cursor = resumed(*kept, self._settings.seed, self._settings.defect)

    def advance(self, *, urgent: bool = False) -> Done:
        """One step. A collective; `urgent` asks all ranks for a cut after it. Raises Corrupted."""
        rotten = self._scrub.rotten(**self._where(FIRST)) and self._settings.defect != defects.STATE_NOT_SCRUBBED
        share = self._share(self._group.rank)
        batch = self._read(share, FIRST)
        before = rng()
        first = self._pass(share, batch, FIRST, urgent=urgent, rotten=rotten)
        done = self._settle(share, batch, before, first)
        steps, computing, loading = self.spans
        self.spans = (steps + 1, computing + self._instruments.seconds, loading + batch.seconds)
        return done._replace(read=batch.read)

    def _settle(self, share: list[int], batch: Batch, before: Tensor, first: _Pass) -> Done:
        """What becomes of a step, once it was computed a first time."""
        if bad := [rank for rank, reading in enumerate(first.readings) if reading.rotten]:
            raise Corrupted(bad[0], "its memory changed between two steps")
        if any(reading.unsound for reading in first.readings):
            return self._leave_out(share, first, "checksum")
        look = self._look(first)
        if look == NORMAL:
            return self._keep(share, first)
        again = self._replay(share, batch, before)
        if differing := _differing(first, again):
            self._say_replayed(look, "transient", AGAIN, differing)
            if self._look(again) != NORMAL:
                raise Corrupted(differing[0], f"{look}, and no two results alike")
            return self._keep(share, again, AGAIN)._replace(blamed=differing[0])
        culprit = self._elsewhere(first, before)
        if culprit is not None:
            self._say_replayed(look, "device", ELSEWHERE, [culprit])
            raise Corrupted(culprit, f"{look}; another device comes to another result")
        if look in (NAN, EXPLODING):
            self._say_replayed(look, "data", ELSEWHERE, [])
            return self._leave_out(share, first, look)
        self._say_replayed(look, "confirmed", ELSEWHERE, [])
        return self._keep(share, self._replay(share, batch, before), AGAIN)

    @torch.no_grad()
    def canary(self) -> float:
        """The mean loss of a fixed batch without dropout: the same on every rank, whatever the world size."""
        self._model.eval()
        self._instruments.begin(step=self.step, rank=self._group.rank, epoch=self._epoch, phase="canary")
        loss = loss_sum(self._model, self._tensor(self._corpus.read(range(CANARY)))).item() / CANARY
        self._model.reshard()  # else its parameters stay whole until the next backward
        return loss

    # --- one pass

    def _pass(
        self, share: list[int], batch: Batch, attempt: int, *, urgent: bool = False, rotten: bool = False
    ) -> _Pass:
        """Forward, backward, and what every rank says of it; the gradients lie ready for the optimizer."""
        settings, world = self._settings, self._group.world
        count, mine = rounds(settings.batch, world, self._micro_batch), 0.0
        self._model.train()
        self._instruments.begin(**self._where(attempt))
        windows = self._tensor(batch)
        for number, ids in enumerate(micro_batches(range(len(share)), count), 1):
            self._model.set_requires_gradient_sync(number == count)
            # An empty share of a round still takes part in its collectives, with weight 0.
            loss = loss_sum(self._model, windows[ids or [0]]) * (bool(ids) / settings.batch)
            (loss * world).backward()  # type: ignore[no-untyped-call]  # FSDP divides by the world size
            mine += loss.item()
        scale = settings.batch / max(len(share), 1)
        reading = Reading(
            mine * scale, self._instruments.norm * scale / world, self._instruments.digest(mine),
            rotten, not batch.sound, self._instruments.seconds, batch.seconds,
        )  # fmt: skip
        return self._exchange(mine, reading, urgent)

    def _exchange(self, loss: float, reading: Reading, urgent: bool) -> _Pass:
        """Every rank's reading, on every rank: each fills in its own row of zeros, and the rows are added up."""
        world = self._group.world
        table = torch.zeros(world, len(reading) + 2, dtype=torch.float64)
        table[self._group.rank] = torch.tensor([loss, urgent, *reading], dtype=torch.float64)
        dist.all_reduce(table := table.to(self._group.mesh.device_type))
        rows = table.tolist()
        readings = [Reading(row[2], row[3], int(row[4]), bool(row[5]), bool(row[6]), row[7], row[8]) for row in rows]
        return _Pass(readings, sum(row[0] for row in rows), any(row[1] for row in rows))

    def _replay(self, share: list[int], batch: Batch, before: Tensor) -> _Pass:
        """The same step once more: same state, same batch, same random numbers."""
        self._drop_gradients()
        set_rng(before)
        return self._pass(share, batch, AGAIN)

    def _elsewhere(self, first: _Pass, before: Tensor) -> int | None:
        """Have each rank compute the share of the next one; the rank that is alone with its results, if any."""
        rank, world = self._group.rank, self._group.world
        if world == 1:
            return None
        after = rng()
        states = [torch.empty_like(before) for _ in range(world)]
        dist.all_gather(states, before, group=self._group.background)
        other = (rank + 1) % world
        share = self._share(other)
        self._drop_gradients()
        set_rng(states[other])
        moved = self._pass(share, self._read(share, ELSEWHERE), ELSEWHERE)
        set_rng(after)
        self._drop_gradients()
        wrong = {
            (r + 1) % world for r in range(world) if moved.readings[r].digest != first.readings[(r + 1) % world].digest
        }
        if not wrong:
            return None
        # A share that came out differently was computed by its own rank and by the one before it.
        doubts = [int(r in wrong) + int((r + 1) % world in wrong) for r in range(world)]
        suspect = self._monitors.outstanding(first.readings)
        return max(range(world), key=lambda r: (doubts[r], r == suspect))

    # --- what becomes of it

    def _keep(self, share: list[int], result: _Pass, attempt: int = FIRST) -> Done:
        """Take the step."""
        state = self.state
        for group in state.optimizer.param_groups:
            group["lr"] = state.schedule.rate()
        with self._instruments.timed():
            state.optimizer.step()
        if self._monitors.note([r for r in result.readings if r.finite] or result.readings):
            self._say_signature(PLATEAU)
        return self._advance(Done(result.loss, share, state.cursor.data_epoch, result.urgent, attempt))

    def _leave_out(self, share: list[int], result: _Pass, reason: str) -> Done:
        """Go past this batch without a trace of it in the weights, and say so."""
        with recovery_path("batch.quarantine"):
            if self._group.rank == 0:
                ids = [i for rank in range(self._group.world) for i in self._share(rank)]
                emit("batch.quarantined", step=self.step + 1, epoch=self._epoch, samples=ids, reason=reason)
            silent = self._settings.defect == defects.QUARANTINE_UNRECORDED
            epoch = self.state.cursor.data_epoch
            return self._advance(Done(None, [], epoch, result.urgent, quarantined=[] if silent else share))

    def _advance(self, done: Done) -> Done:
        self._drop_gradients()
        self.state.schedule.taken += 1
        self.state.cursor = self._sampler.advance(self.state.cursor)
        self.step += 1
        with self._instruments.timed():
            self._scrub.take()
        return done

    def _look(self, result: _Pass) -> str:
        """What the step looks like; the deliberate bugs do not look closely."""
        look = self._monitors.signature([r for r in result.readings if r.norm or r.loss] or result.readings)
        if self._settings.defect == defects.NO_REPLAY or (
            look == NAN and self._settings.defect == defects.NAN_COMMITTED
        ):
            return NORMAL
        if look != NORMAL:
            self._say_signature(look)
        return look

    def _drop_gradients(self) -> None:
        self.state.optimizer.zero_grad()

    def _say_signature(self, look: str) -> None:
        if self._group.rank == 0:
            emit("loss.signature", step=self.step + 1, epoch=self._epoch, signature=look)

    def _say_replayed(self, look: str, verdict: str, attempt: int, differing: Sequence[int]) -> None:
        if self._group.rank == 0:
            with recovery_path("step.replay"):
                emit(
                    "step.replayed",
                    step=self.step + 1, epoch=self._epoch, signature=look, verdict=verdict, attempt=attempt,
                    ranks=list(differing),
                )  # fmt: skip

    def _share(self, rank: int) -> list[int]:
        return self._sampler.share(self.state.cursor, rank, self._group.world)

    def _read(self, share: list[int], attempt: int) -> Batch:
        return self._corpus.read(share or [0], **self._where(attempt))

    def _where(self, attempt: int) -> dict[str, int]:
        return {"step": self.step + 1, "rank": self._group.rank, "epoch": self._epoch, "attempt": attempt}

    def _tensor(self, batch: Batch) -> Tensor:
        return torch.from_numpy(batch.windows).to(self._group.mesh.device_type)


def _differing(first: _Pass, again: _Pass) -> list[int]:
    """The ranks that computed something else the second time."""
    pairs = zip(first.readings, again.readings, strict=True)
    return [rank for rank, (one, two) in enumerate(pairs) if one.digest != two.digest]
