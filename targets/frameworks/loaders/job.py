"""A training loop over a StatefulDataLoader, as its documentation has it: its state is saved and loaded with the rest.

Steps are numbered by their place in the data (`epoch * batches + index`), as loops do that log by it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset
from torchdata.stateful_dataloader import StatefulDataLoader

from chaos.inside import emit, point
from targets.frameworks.launcher import DATA, SETTINGS, Place, digest, file_facts, launch

CASE, SAVE = SETTINGS.get("case", "mid-epoch"), SETTINGS.get("save", "steps")
OLD = SETTINGS.get("library") == "as-it-was"
SIZE, BATCH, EPOCHS = (int(SETTINGS.get(name, 0)) for name in ("dataset", "batch", "epochs"))
EVERY, SEED = int(SETTINGS.get("save_every", 5)), int(SETTINGS.get("seed", 7))
FOLDER = DATA / "checkpoints"


class Samples(Dataset[tuple[int, torch.Tensor]]):
    """Each sample says which one it is."""

    def __init__(self, size: int) -> None:
        self.rows = torch.randn(size, 8, generator=torch.Generator().manual_seed(1))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[int, torch.Tensor]:
        return index, self.rows[index]


class Job:
    """One incarnation of the training."""

    def __init__(self, place: Place) -> None:
        torch.manual_seed(SEED)
        self.place = place
        self.model = torch.nn.Linear(8, 8)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        stateful = not (OLD and CASE == "mid-epoch")
        kind: Any = StatefulDataLoader if stateful else DataLoader
        self.loader: Any = kind(Samples(SIZE), batch_size=BATCH, shuffle=True)
        self.step = self.generation = 0

    def resume(self) -> None:
        """From the newest checkpoint, if there is one."""
        files = sorted(FOLDER.glob("*.pt"))
        if files:
            self.generation = int(files[-1].stem)
            epoch = self.place.epoch
            emit("checkpoint.loading", generation=self.generation, rank=0, epoch=epoch)
            held = torch.load(files[-1], weights_only=False)
            self.model.load_state_dict(held["model"])
            self.optimizer.load_state_dict(held["optimizer"])
            self.step = held["step"]
            if held["loader"] is not None:
                self.loader.load_state_dict(held["loader"])
            emit(
                "checkpoint.loaded", generation=self.generation, step=self.step, rank=0, world=1, epoch=epoch,
                state=self.state(),
            )  # fmt: skip
        emit("group.formed", epoch=self.place.epoch, world=1, generation=self.generation, step=self.step)

    def train(self) -> None:
        """The rest of the epochs."""
        batches = len(self.loader)
        first, index = divmod(self.step, batches)
        for epoch in range(first, EPOCHS):
            for ids, rows in self.loader:
                if index == batches:
                    break  # an epoch has no more steps, whatever a loader says that began at 0 again
                self.do(epoch * batches + index + 1, epoch, ids.tolist(), rows)
                index += 1
                if SAVE == "steps" and self.step % EVERY == 0:
                    self.save()
            index = 0
            if SAVE == "epoch":
                self.save()
        emit("job.completed", step=self.step)

    def do(self, step: int, epoch: int, ids: list[int], rows: torch.Tensor) -> None:
        """One step."""
        point("step.begin", step=step, epoch=self.place.epoch)
        loss = (self.model(rows) - rows).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.step = step
        emit(
            "step.completed", step=step, rank=0, world=1, epoch=self.place.epoch, loss=repr(float(loss)), samples=ids,
            data_epoch=epoch,
        )  # fmt: skip

    def save(self) -> None:
        """All of it, in one file, whole or not at all."""
        self.generation += 1
        name, epoch = f"{self.generation:04}.pt", self.place.epoch
        emit("checkpoint.saved", generation=self.generation, step=self.step, rank=0, epoch=epoch, state=self.state())
        held = {
            "model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(), "step": self.step,
            "loader": self.loader.state_dict() if hasattr(self.loader, "state_dict") else None,
        }  # fmt: skip
        with (FOLDER / "new").open("wb") as file:
            torch.save(held, file)
            file.flush()
            os.fsync(file.fileno())
        Path(FOLDER / "new").rename(FOLDER / name)
        emit("checkpoint.shard_written", generation=self.generation, name=name, rank=0, **file_facts(FOLDER / name))
        emit("checkpoint.committed", generation=self.generation, step=self.step, epoch=epoch, shards=[name])

    def state(self) -> dict[str, str]:
        """Digests of what a checkpoint must bring back."""
        return {"model": digest(self.model.state_dict()), "optimizer": digest(self.optimizer.state_dict())}


def finished_is_not_looked_at(loader: Any) -> Any:
    """`StatefulDataLoader.__iter__` of torchdata 0.10, for a loader without workers."""
    if loader._initial_iter_for_state_dict:
        loader._initial_iter_for_state_dict = False
    else:
        loader._iterator = loader._get_iterator()
    return loader._iterator


def work(place: Place) -> None:
    """One incarnation of the job."""
    if OLD and CASE == "end-of-epoch":
        StatefulDataLoader.__iter__ = finished_is_not_looked_at
    if place.epoch == 1:
        emit(
            "job.started", steps=EPOCHS * (SIZE // BATCH), dataset=SIZE, batch=BATCH, checkpoint_every=EVERY, seed=SEED
        )
    job = Job(place)
    job.resume()
    job.train()


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    launch(work)
