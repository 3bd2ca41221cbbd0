"""All that must come back after a failure: model, optimizer, schedule, random numbers, data cursor."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.tensor import DTensor

from targets.trainer.wire import digest
from targets.trainer.worker.data import Cursor
from targets.trainer.worker.group import Group, as_bytes, unsharded
from targets.trainer.worker.model import Sharded

PARTS = ("model", "optimizer", "rng", "schedule", "data")
MOMENTS = ("exp_avg", "exp_avg_sq")


class Schedule:
    """Linear warm-up, then a cosine to a tenth; `taken` counts its steps and is its state."""

    def __init__(self, steps: int, *, peak: float = 3e-3, warmup: int = 10) -> None:
        self.taken, self._steps, self._peak, self._warmup = 0, steps, peak, warmup

    def rate(self) -> float:
        """The learning rate of the next step."""
        if self.taken < self._warmup:
            return self._peak * (self.taken + 1) / self._warmup
        progress = min((self.taken - self._warmup) / max(self._steps - self._warmup, 1), 1.0)
        return self._peak * (0.55 + 0.45 * math.cos(math.pi * progress))


class Fingerprint(NamedTuple):
    """What `checkpoint.saved` and `checkpoint.loaded` say of a state."""

    state: dict[str, str]
    optimizer_entries: int


class TrainState:
    """The live state of one rank. `tensors` names every tensor of a checkpoint; restoring fills them in place."""

    def __init__(self, model: Sharded, group: Group, *, seed: int, steps: int) -> None:
        self.model, self._group, self._seed = model, group, seed
        self._parameters = dict(model.named_parameters())  # once: they are asked for several times a step
        # Fused, one operation whose placement must be worked out: seven cost each new process a seventh of a second.
        self.optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.01, fused=True)
        self.schedule = Schedule(steps)
        self.cursor = Cursor()
        self.seed_rng(step=0)

    def initialise_optimizer(self) -> None:
        """Create the moments that AdamW would create at its first step: what does not exist is not restored."""
        for parameter in self.model.parameters():
            if parameter not in self.optimizer.state:
                moments = {name: torch.zeros_like(parameter) for name in MOMENTS}
                self.optimizer.state[parameter] = {"step": torch.tensor(0.0), **moments}

    def seed_rng(self, *, step: int) -> None:
        """Generators as they start at `step` for this rank and world: of a fresh job, or after a resize."""
        key = f"{self._seed}/{step}/{self._group.rank}/{self._group.world}".encode()
        torch.manual_seed(int.from_bytes(hashlib.blake2b(key, digest_size=7).digest()))

    def tensors(self, parts: Iterable[str] = PARTS) -> dict[str, Tensor]:
        """Name → tensor of these parts. Model and optimizer are the live tensors, the rest are copies for `apply`."""
        found: dict[str, Tensor] = {}
        for part in parts:
            found |= self._sources[part]()
        return found

    def snapshot(self) -> dict[str, Tensor]:
        """A copy of `tensors` that training does not touch."""
        return {name: tensor.detach().clone() for name, tensor in self.tensors().items()}

    def own(self) -> dict[str, Tensor]:
        """A copy of what this rank itself holds, free of the group that it is made in, whatever becomes of its rank."""
        return {_unranked(name): shard(tensor).detach().clone() for name, tensor in self.tensors().items()}

    def fill(self, own: dict[str, Tensor]) -> None:
        """Take over what this rank held when the same part of the state was its."""
        tensors = self.tensors()
        with torch.no_grad():
            for name, tensor in tensors.items():
                shard(tensor).copy_(own[_unranked(name)])
        self.apply(tensors)

    def spread(self, *, receive: bool) -> None:
        """Hand the state of the first replica to all others, but for random numbers. A collective."""
        assert self._group.across is not None
        parts = [part for part in PARTS if part != "rng"]
        tensors = self.tensors(parts)
        local = [shard(tensor) for tensor in tensors.values()]
        sent = torch.cat([as_bytes(tensor) for tensor in local])
        dist.broadcast(sent, group=self._group.across, group_src=0)
        if receive:
            pieces = torch.split(sent, [tensor.numel() * tensor.element_size() for tensor in local])
            with torch.no_grad():
                for tensor, piece in zip(local, pieces, strict=True):
                    tensor.copy_(piece.clone().view(tensor.dtype).reshape(tensor.shape))
            self.apply(tensors)

    def apply(self, tensors: dict[str, Tensor]) -> None:
        """Take over the parts of `tensors` that are not live: after a load."""
        if (schedule := tensors.get("schedule")) is not None:
            self.schedule.taken = int(schedule)
        if (data := tensors.get("data")) is not None:
            self.cursor = Cursor(*data.tolist())
        if (rng := tensors.get(self._rng_name)) is not None:
            set_rng(rng)

    def fingerprint(self) -> Fingerprint:
        """Digests by part, of model and optimizer over the unsharded tensors. A collective, never during a save."""
        tensors = self.tensors(("model", "optimizer"))
        hashes = {part: hashlib.blake2b(digest_size=16) for part in ("model", "optimizer")}
        for (name, tensor), data in zip(tensors.items(), unsharded(self._group, tensors.values()), strict=True):
            part = name.partition(".")[0]
            hashes[part].update(f"{name}:{tensor.dtype}:{tuple(tensor.shape)}:".encode() + data)
        schedule = json.dumps([self.schedule.taken, self.schedule.rate()]).encode()
        state = {
            **{part: value.hexdigest() for part, value in hashes.items()},
            "rng": digest(rng().numpy().tobytes()),
            "schedule": digest(schedule),
            "data": digest(json.dumps(self.cursor).encode()),
        }
        return Fingerprint(state, len(self.optimizer.state))

    @property
    def _rng_name(self) -> str:
        return f"rng.{self._group.rank}"

    @property
    def _sources(self) -> dict[str, Callable[[], dict[str, Tensor]]]:
        return {
            "model": lambda: {f"model.{name}": p for name, p in self._parameters.items()},
            "optimizer": self._optimizer_tensors,
            "rng": lambda: {self._rng_name: rng()},
            "schedule": lambda: {"schedule": torch.tensor(self.schedule.taken)},
            "data": lambda: {"data": torch.tensor(self.cursor)},
        }

    def _optimizer_tensors(self) -> dict[str, Tensor]:
        return {
            f"optimizer.{name}.{key}": value
            for name, parameter in self._parameters.items()
            for key, value in self.optimizer.state.get(parameter, {}).items()
        }


def _unranked(name: str) -> str:
    return "rng" if name.startswith("rng.") else name


def shard(tensor: Tensor) -> Tensor:
    """What this rank itself holds of a tensor."""
    if not isinstance(tensor, DTensor):
        return tensor
    with torch.no_grad():  # else every look at it is an operation that autograd takes note of
        return tensor.to_local()


def rng() -> Tensor:
    """The state of all generators of this rank as bytes."""
    states = [torch.get_rng_state()]
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        states.append(torch.cuda.get_rng_state())
    return torch.cat(states)


def set_rng(state: Tensor) -> None:
    """Go on from such a state."""
    size = torch.get_rng_state().numel()
    torch.set_rng_state(state[:size])
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.set_rng_state(state[size:])
