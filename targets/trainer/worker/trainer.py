"""Optimizer steps whose result does not depend on the world size, up to rounding."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from targets.trainer import defects
from targets.trainer.settings import Settings
from targets.trainer.worker.checkpoint import Restored
from targets.trainer.worker.data import Corpus, Sampler, micro_batches, rounds
from targets.trainer.worker.group import Group
from targets.trainer.worker.miscounts import resumed
from targets.trainer.worker.model import build, loss_sum
from targets.trainer.worker.state import TrainState

CANARY = 4  # samples of the canary batch: the first ones of the data set


class Done(NamedTuple):
    """What one step did."""

    loss: float  # the mean over the global batch, the same on every rank
    samples: list[int]  # that this rank consumed
    data_epoch: int
    urgent: bool  # a rank was asked for a cut: all ranks see it after the same step

    def facts(self) -> dict[str, Any]:
        return {"loss": self.loss, "samples": self.samples, "data_epoch": self.data_epoch}


class Trainer:
    """The training job of one rank: `state` advances by one global batch a step."""

    def __init__(self, group: Group, corpus: Corpus, settings: Settings) -> None:
        self.step = self.resumed_at = 0
        self._group, self._corpus, self._settings = group, corpus, settings
        self._model = build(group.mesh, settings.seed)
        self.state = TrainState(self._model, group, seed=settings.seed, steps=settings.steps)
        self._sampler = Sampler(settings.dataset, settings.batch, settings.seed)

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
        """One step. A collective; `urgent` asks all ranks for a cut after it."""
        state, settings, world = self.state, self._settings, self._group.world
        cursor = state.cursor
        share = self._sampler.share(cursor, self._group.rank, world)
        count = rounds(settings.batch, world)
        total = torch.zeros(2, dtype=torch.float64)
        self._model.train()
        for number, ids in enumerate(micro_batches(share, count), 1):
            self._model.set_requires_gradient_sync(number == count)
            # An empty share of a round still takes part in its collectives, with weight 0.
            loss = loss_sum(self._model, self._windows(ids or [0])) * (bool(ids) / settings.batch)
            (loss * world).backward()  # type: ignore[no-untyped-call]  # FSDP divides by the world size
            total[0] += loss.item()
        for group in state.optimizer.param_groups:
            group["lr"] = state.schedule.rate()
        state.optimizer.step()
        state.optimizer.zero_grad()
        state.schedule.taken += 1
        state.cursor = self._sampler.advance(cursor)
        self.step += 1
        total[1] = float(urgent)
        dist.all_reduce(total := total.to(self._group.mesh.device_type))
        return Done(total[0].item(), share, cursor.data_epoch, total[1].item() > 0)

    @torch.no_grad()
    def canary(self) -> float:
        """The mean loss of a fixed batch without dropout: the same on every rank, whatever the world size."""
        self._model.eval()
        loss = loss_sum(self._model, self._windows(range(CANARY))).item() / CANARY
        self._model.reshard()  # else its parameters stay whole until the next backward
        return loss

    def _windows(self, ids: Any) -> Tensor:
        return torch.from_numpy(self._corpus.windows(ids)).to(self._group.mesh.device_type)
