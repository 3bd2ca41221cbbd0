"""A Lightning job that saves every few steps and resumes from the newest file that has a checkpoint's name.

A name is all that Lightning and its users go by, so a name is the commit record: what lies under one is reported as
committed, and as written only where the save returned, or where the file can be read.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import lightning as L
import torch
from lightning.fabric.plugins.io import torch_io
from lightning.pytorch.callbacks import Callback, ModelCheckpoint
from lightning.pytorch.plugins.io import TorchCheckpointIO
from torch.utils.data import DataLoader, TensorDataset

from chaos.inside import emit, point
from targets.frameworks.launcher import DATA, SETTINGS, Place, digest, file_facts, launch

FOLDER = DATA / "checkpoints"
EVERY = int(SETTINGS.get("save_every", 5))
STEPS = int(SETTINGS.get("steps", 20))


class Net(L.LightningModule):
    """Large enough that a checkpoint is more than one buffer of a file."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(64, 64)

    def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
        (rows,) = batch
        loss: torch.Tensor = (self.layer(rows) - rows).square().mean()
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


class Told(TorchCheckpointIO):
    """Lightning's own way to write and read a file; what it said is reported."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        file = Path(path)
        generation, step = numbered(file)
        emit("checkpoint.begun", generation=generation, step=step, epoch=self.epoch, world=1)
        emit("checkpoint.saved", generation=generation, step=step, rank=0, epoch=self.epoch, state=state_of(checkpoint))
        point("checkpoint.before_write", generation=generation, step=step)
        super().save_checkpoint(checkpoint, path, storage_options)
        facts = file_facts(file)
        emit("checkpoint.shard_written", generation=generation, name=file.name, rank=0, **facts)
        committed(file, self.epoch)


class Reports(Callback):
    """What the trainer did, step by step."""

    def __init__(self, place: Place, resumed: Path | None) -> None:
        self.place, self.resumed = place, resumed

    def on_train_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        generation = numbered(self.resumed)[0] if self.resumed else 0
        epoch = self.place.epoch
        if self.resumed:
            held = {
                "state_dict": module.state_dict(),
                "optimizer_states": [optimizer.state_dict() for optimizer in trainer.optimizers],
            }
            emit(
                "checkpoint.loaded", generation=generation, step=trainer.global_step, rank=0, world=1, epoch=epoch,
                state=state_of(held),
            )  # fmt: skip
        emit("group.formed", epoch=epoch, world=1, generation=generation, step=trainer.global_step)

    def on_train_batch_end(
        self, trainer: L.Trainer, module: L.LightningModule, outputs: Any, batch: Any, index: int
    ) -> None:
        emit(
            "step.completed", step=trainer.global_step, rank=0, world=1, epoch=self.place.epoch,
            loss=repr(float(outputs["loss"])),
        )  # fmt: skip


def numbered(file: Path) -> tuple[int, int]:
    """Generation and step of a checkpoint, from its name."""
    found = re.fullmatch(r"step=(\d+)\.ckpt", file.name)
    assert found is not None, file
    return int(found[1]) // EVERY, int(found[1])


def state_of(checkpoint: dict[str, Any]) -> dict[str, str]:
    return {"model": digest(checkpoint["state_dict"]), "optimizer": digest(checkpoint["optimizer_states"])}


def committed(file: Path, epoch: int) -> None:
    generation, step = numbered(file)
    emit("checkpoint.committed", generation=generation, step=step, epoch=epoch, shards=[file.name])


def newest() -> Path | None:
    """The file to resume from."""
    return max(FOLDER.glob("step=*.ckpt"), key=numbered, default=None)


def look_at(file: Path, epoch: int) -> None:
    """The newest file after a crash: whether its save returned or not, its name is there."""
    generation, _ = numbered(file)
    try:
        torch.load(file, weights_only=False)
    except Exception as error:
        print(f"{file.name} ({file.stat().st_size} bytes) cannot be read: {error!r}", file=sys.stderr)
    else:
        emit("checkpoint.shard_written", generation=generation, name=file.name, rank=0, **file_facts(file))
    committed(file, epoch)


def work(place: Place) -> None:
    """One incarnation of the job."""
    L.seed_everything(int(SETTINGS.get("seed", 7)), verbose=False)
    resumed = newest()
    if resumed:
        look_at(resumed, place.epoch)
        emit("checkpoint.loading", generation=numbered(resumed)[0], rank=0, epoch=place.epoch)
    rows = torch.randn(4 * STEPS, 64, generator=torch.Generator().manual_seed(1))
    saving = ModelCheckpoint(
        dirpath=FOLDER, filename="{step}", every_n_train_steps=EVERY, save_top_k=-1, save_on_train_epoch_end=False
    )
    trainer = L.Trainer(
        accelerator="cpu", devices=1, max_steps=STEPS, logger=False, enable_progress_bar=False,
        enable_model_summary=False, callbacks=[saving, Reports(place, resumed)], plugins=[Told(place.epoch)],
    )  # fmt: skip
    if place.epoch == 1:
        emit("job.started", steps=STEPS, checkpoint_every=EVERY, seed=SETTINGS.get("seed", 7))
    trainer.fit(Net(), DataLoader(TensorDataset(rows), batch_size=4), ckpt_path=resumed, weights_only=False)
    emit("job.completed", step=trainer.global_step)


def main() -> None:
    """Settle where temporary files go and which Lightning this is, then run the job."""
    warnings.filterwarnings("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    FOLDER.mkdir(exist_ok=True)
    library = SETTINGS.get("library", "installed")
    beside = SETTINGS.get("temporary") == "beside" or library == "guarded"
    if beside:
        (FOLDER / "temporary").mkdir(exist_ok=True)
    os.environ["TMPDIR"] = str(FOLDER / "temporary") if beside else "/dev/shm"
    tempfile.tempdir = None  # some import had already asked for it
    if library == "as-it-was":
        # torch.save straight to the final name.
        plugin: Any = torch_io
        plugin._atomic_save = torch.save
    launch(work)


if __name__ == "__main__":
    main()
