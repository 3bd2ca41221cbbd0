"""A training job small enough to be read: model, AdamW, samples by number, and what it tells of each step."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from chaos.inside import emit, point
from targets.frameworks.dcp.settings import Settings

SAMPLES = 4  # of a rank in a step


class Job:
    """One rank of the job, from nothing: fresh weights and a fresh optimizer, as after every start of a process."""

    def __init__(self, settings: Settings, rank: int, epoch: int) -> None:
        self.settings, self.rank, self.epoch, self.world = settings, rank, epoch, settings.world
        self.step = 0
        torch.manual_seed(7)
        self.model: nn.Module = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 4))
        self.group: dist.ProcessGroup | None = None  # of the training's own collectives; None: the default one
        if self.world > 1 and settings.shard:
            fully_shard(self.model)
        self.watch: Callable[[Job], bool] = lambda _: True  # between backward and update: whether the update is done
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-2)

    def train_step(self) -> None:
        """One step on the samples that are its own, and the event that tells of it."""
        point("step.begin", step=self.step + 1, rank=self.rank, epoch=self.epoch)
        began = time.monotonic()
        first = (self.step * self.world + self.rank) * SAMPLES
        samples = list(range(first, first + SAMPLES))
        dice = torch.Generator().manual_seed(first)
        inputs = torch.randn(SAMPLES, 16, generator=dice)
        loss = (self.model(inputs) - inputs[:, :4].tanh()).square().mean()
        loss.backward()
        if self.world > 1 and not self.settings.shard:
            for parameter in self.model.parameters():
                dist.all_reduce(parameter.grad, group=self.group)
        taken = self.watch(self)
        if taken:
            self.optimizer.step()
        self.optimizer.zero_grad()
        self.step += 1
        time.sleep(max(0.0, self.settings.step_seconds - (time.monotonic() - began)))
        result: dict[str, Any]
        if taken:
            result = {"samples": samples, "loss": repr(self._mean(loss))}
        else:
            result = {"samples": [], "quarantined": samples, "loss": None}
        emit("step.completed", step=self.step, data_epoch=0, **result, **self.who)

    @property
    def who(self) -> dict[str, int]:
        return {"rank": self.rank, "world": self.world, "epoch": self.epoch}

    @property
    def generation(self) -> int:
        """The number of the checkpoint at this step."""
        return self.step // self.settings.checkpoint_every

    @property
    def due(self) -> bool:
        """Whether a checkpoint is due after this step."""
        return self.step % self.settings.checkpoint_every == 0

    def formed(self, generation: int = 0) -> None:
        """Say what this incarnation begins with."""
        if self.rank == 0:
            emit("group.formed", epoch=self.epoch, world=self.world, generation=generation, step=self.step)

    def say_begun(self) -> None:
        """A save is about to begin; faults in it are armed here."""
        cut = {"generation": self.generation, "step": self.step, "epoch": self.epoch}
        if self.rank == 0:
            emit("checkpoint.begun", world=self.world, **cut)
        point("checkpoint.before_save", rank=self.rank, **cut)

    def say_saved(self) -> None:
        """The state of the cut, before anything is written."""
        emit("checkpoint.saved", generation=self.generation, step=self.step, **self.who, **self.state())

    def say_loading(self, generation: int) -> None:
        emit("checkpoint.loading", generation=generation, rank=self.rank, epoch=self.epoch)

    def say_loaded(self, generation: int) -> None:
        """The live state after a load."""
        emit("checkpoint.loaded", generation=generation, step=self.step, **self.who, **self.state())

    def state(self) -> dict[str, Any]:
        """Digests of the live state by part, and how many tensors the optimizer holds."""
        moments = [
            (f"{number}.{key}", value)
            for number, parameter in enumerate(self.model.parameters())
            for key, value in sorted(self.optimizer.state.get(parameter, {}).items())
        ]
        parts = {
            "model": digest(self.model.named_parameters()),
            "optimizer": digest(moments),
            "data": hashlib.sha256(str(self.step).encode()).hexdigest(),
        }
        return {"state": parts, "optimizer_entries": len(moments)}

    def _mean(self, loss: torch.Tensor) -> float:
        mean = loss.detach().clone()
        if self.world > 1:
            dist.all_reduce(mean, group=self.group)
        return float(mean / self.world)


def digest(tensors: Iterable[tuple[str, torch.Tensor]]) -> str:
    """SHA-256 of names and bytes, of the whole tensor where it is a sharded one."""
    found = hashlib.sha256()
    for name, tensor in tensors:
        whole = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
        found.update(name.encode())
        found.update(whole.detach().contiguous().numpy().tobytes())
    return found.hexdigest()


def folder(settings: Settings, step: int) -> Path:
    """Where the checkpoint of a step lies."""
    return settings.checkpoints / f"step-{step}"


def folders(settings: Settings) -> dict[int, Path]:
    """All folders that look like one, by step."""
    found = ((re.fullmatch(r"step-(\d+)", path.name), path) for path in settings.checkpoints.iterdir())
    return {int(match[1]): path for match, path in found if match}
