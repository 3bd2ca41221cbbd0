"""A training loop on accelerate, after its own examples (`by_feature/checkpointing.py`): `save_state` every few steps,
and after a restart `load_state` and `skip_first_batches`.
"""

from __future__ import annotations

from typing import Any

import torch
from accelerate import Accelerator
from accelerate import accelerator as accelerator_module
from accelerate.utils import DataLoaderConfiguration, set_seed
from torch.utils.data import DataLoader, Dataset

from chaos.inside import emit, point
from targets.frameworks.launcher import DATA, SETTINGS, Place, digest, file_facts, launch

CASE, LIBRARY = SETTINGS.get("case"), SETTINGS.get("library", "installed")
SEEDABLE = bool(SETTINGS.get("seedable", 1)) or LIBRARY == "guarded"
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
        set_seed(SEED)
        self.place = place
        self.accelerator = Accelerator(
            cpu=True, dataloader_config=DataLoaderConfiguration(use_seedable_sampler=SEEDABLE)
        )
        model = torch.nn.Linear(8, 8)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        loader = DataLoader(Samples(SIZE), batch_size=BATCH, shuffle=True)
        self.model, self.optimizer, self.loader = self.accelerator.prepare(model, optimizer, loader)
        self.step = 0

    def resume(self) -> None:
        """From the newest checkpoint, if there is one."""
        folders = sorted(FOLDER.glob("step_*"), key=lambda p: int(p.name.removeprefix("step_")))
        if folders:
            self.step = int(folders[-1].name.removeprefix("step_"))
            emit("checkpoint.loading", generation=self.generation, rank=0, epoch=self.place.epoch)
            self.accelerator.load_state(str(folders[-1]))
            emit(
                "checkpoint.loaded", generation=self.generation, step=self.step, rank=0, world=1,
                epoch=self.place.epoch, state=self.state(),
            )  # fmt: skip
        emit("group.formed", epoch=self.place.epoch, world=1, generation=self.generation, step=self.step)

    def train(self) -> None:
        """The rest of the epochs."""
        batches = len(self.loader)
        first, skip = divmod(self.step, batches)
        for epoch in range(first, EPOCHS):
            self.loader.set_epoch(epoch)
            active = self.loader
            if epoch == first and skip:
                active = self.accelerator.skip_first_batches(self.loader, skip)
                if LIBRARY == "as-it-was" and CASE == "skip-every-epoch":
                    self.loader = active  # as the examples did before accelerate 0.20
            for ids, rows in active:
                self.do(epoch, ids.tolist(), rows)
                if self.step % EVERY == 0:
                    self.save()
        emit("job.completed", step=self.step)

    def do(self, epoch: int, ids: list[int], rows: torch.Tensor) -> None:
        """One step."""
        point("step.begin", step=self.step + 1, rank=0, epoch=self.place.epoch)
        loss = (self.model(rows) - rows).square().mean()
        self.accelerator.backward(loss)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.step += 1
        emit(
            "step.completed", step=self.step, rank=0, world=1, epoch=self.place.epoch, loss=repr(float(loss)),
            samples=ids, data_epoch=epoch,
        )  # fmt: skip

    def save(self) -> None:
        """By accelerate, under the name of the step."""
        name, epoch = f"step_{self.step}", self.place.epoch
        emit("checkpoint.saved", generation=self.generation, step=self.step, rank=0, epoch=epoch, state=self.state())
        self.accelerator.save_state(str(FOLDER / name))
        files = sorted(file for file in (FOLDER / name).iterdir() if file.is_file())
        for file in files:
            emit("checkpoint.shard_written", generation=self.generation, name=file.name, rank=0, **file_facts(file))
        shards = [file.name for file in files]
        emit("checkpoint.committed", generation=self.generation, step=self.step, epoch=epoch, shards=shards)

    @property
    def generation(self) -> int:
        """Checkpoints are counted."""
        return self.step // EVERY

    def state(self) -> dict[str, str]:
        """Digests of what a checkpoint must bring back."""
        model = self.accelerator.unwrap_model(self.model)
        return {"model": digest(model.state_dict()), "optimizer": digest(self.optimizer.state_dict())}


def sampler_starts_at_epoch_0() -> None:
    """Before #4071 the loader that `skip_first_batches` made did not know which epoch it was in."""
    skip: Any = accelerator_module.skip_first_batches

    def forgets(dataloader: Any, num_batches: int = 0) -> Any:
        made = skip(dataloader, num_batches)
        made.iteration = 0
        return made

    accelerator_module.skip_first_batches = forgets


def work(place: Place) -> None:
    """One incarnation of the job."""
    if place.epoch == 1:
        emit(
            "job.started", steps=EPOCHS * (SIZE // BATCH), dataset=SIZE, batch=BATCH, checkpoint_every=EVERY, seed=SEED
        )
    job = Job(place)
    job.resume()
    job.train()


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    if LIBRARY == "as-it-was" and CASE == "sampler-epoch":
        sampler_starts_at_epoch_0()
    launch(work)
