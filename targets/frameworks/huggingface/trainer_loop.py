"""A Trainer job of one or two ranks, that saves every few steps and resumes as its documentation says.

A folder with a checkpoint's name is one to the Trainer, so the name is the commit record of all that a checkpoint is
made of; what of it lies in the folder is reported when all ranks have come back from the save, or when a restarted job
finds it. Generations are numbered by their step.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch.distributed as dist
from transformers import TrainerCallback
from transformers.trainer_utils import get_last_checkpoint

from chaos.inside import emit
from targets.frameworks.huggingface import tiny
from targets.frameworks.launcher import DATA, SETTINGS, Place, digest, file_facts, launch

CASE, LIBRARY = SETTINGS.get("case"), SETTINGS.get("library", "installed")
SIZE, BATCH, EPOCHS, STEPS = (int(SETTINGS.get(name, 0)) for name in ("dataset", "batch", "epochs", "steps"))
EVERY, SEED = int(SETTINGS.get("save_every", 5)), int(SETTINGS.get("seed", 7))
WORLDS = (int(SETTINGS.get("ranks", 1)), int(SETTINGS.get("ranks_later", 1)))
OUTPUT = DATA / "output"
MARKED = LIBRARY == "guarded" and CASE == "killed-in-a-save"
ONE_GLOBAL_BATCH = LIBRARY == "guarded" and CASE == "resize"
MARK = "COMPLETE"
PARTS = ("model.safetensors", "optimizer.pt", "scheduler.pt", "trainer_state.json")  # of any checkpoint


class Staged(tiny.Told):
    """The order of a save in transformers 4.36.0: every rank renames the folder that all of them have written to."""

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        final = OUTPUT / f"checkpoint-{self.state.global_step}"
        staging = str(final if final.exists() else OUTPUT / f"tmp-{final.name}")
        self.save_model(staging, _internal_call=True)
        self._save_optimizer_and_scheduler(staging)
        self._save_rng_state(staging)
        if self.args.should_save:
            self.state.save_to_json(os.path.join(staging, "trainer_state.json"))
        if staging != str(final):
            os.rename(staging, final)


class Reports(TrainerCallback):
    """What is resumed from, what the ranks hold at a save, and what then lies in its folder."""

    def __init__(self, place: Place, resumed: Path | None) -> None:
        self.place, self.resumed = place, resumed
        self.saved: Path | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **more: Any) -> None:
        place, step = self.place, state.global_step
        if self.resumed:
            emit(
                "checkpoint.loaded", generation=step, step=step, rank=place.rank, world=place.world, epoch=place.epoch,
                state={"model": digest(model.state_dict())},
            )  # fmt: skip
        if place.rank == 0:
            emit("group.formed", epoch=place.epoch, world=place.world, generation=step, step=step)

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **more: Any) -> None:
        if self.saved is not None and self.place.rank == 0:  # every rank has been in a step since then
            found(self.saved, self.place, self.place.world)
        self.saved = None
        if control.should_save and self.place.rank == 0:
            step = state.global_step
            emit("checkpoint.begun", generation=step, step=step, epoch=self.place.epoch, world=self.place.world)

    def on_save(self, args: Any, state: Any, control: Any, model: Any = None, **more: Any) -> None:
        place, step = self.place, state.global_step
        emit(
            "checkpoint.saved", generation=step, step=step, rank=place.rank, epoch=place.epoch,
            state={"model": digest(model.state_dict())},
        )  # fmt: skip
        self.saved = OUTPUT / f"checkpoint-{step}"
        if MARKED:
            dist.barrier()
            if place.rank == 0:
                (self.saved / MARK).touch()


def found(folder: Path, place: Place, world: int) -> None:
    """A folder that bears the name of a checkpoint of that many ranks, and what lies in it."""
    step = tiny.number(folder)
    own = [f"rng_state_{rank}.pth" for rank in range(world)] if world > 1 else ["rng_state.pth"]
    for name in (*PARTS, *own):
        if (folder / name).exists():
            rank = own.index(name) if name in own else 0
            emit("checkpoint.shard_written", generation=step, name=name, rank=rank, **file_facts(folder / name))
    emit("checkpoint.committed", generation=step, step=step, epoch=place.epoch, shards=[*PARTS, *own])


def newest() -> Path | None:
    """What a job resumes from: the Trainer's own choice, or the newest with a mark."""
    if MARKED:
        marked = [mark.parent for mark in OUTPUT.glob(f"checkpoint-*/{MARK}")]
        return max(marked, key=tiny.number, default=None)
    choice: Any = get_last_checkpoint
    last = choice(str(OUTPUT)) if OUTPUT.exists() else None
    return Path(last) if last else None


def work(place: Place) -> None:
    """One incarnation of one rank."""
    resumed = newest()
    if place.rank == 0 and place.epoch == 1:
        emit("job.started", dataset=SIZE, checkpoint_every=EVERY, seed=SEED)
    if resumed:
        if place.rank == 0:
            found(resumed, place, WORLDS[0] if place.epoch == 2 else WORLDS[1])  # those that have written it
        emit("checkpoint.loading", generation=tiny.number(resumed), rank=place.rank, epoch=place.epoch)
    batch = BATCH // place.world if ONE_GLOBAL_BATCH else BATCH
    arguments = tiny.arguments(
        OUTPUT, num_train_epochs=EPOCHS, max_steps=STEPS or -1, per_device_train_batch_size=batch, save_steps=EVERY,
        seed=SEED, ddp_backend="gloo" if place.world > 1 else None,
    )  # fmt: skip
    kind = Staged if LIBRARY == "as-it-was" and CASE == "late-rank" else tiny.Told
    trainer = kind(
        place, model=tiny.model(SEED), args=arguments, train_dataset=tiny.Samples(SIZE),
        callbacks=[Reports(place, resumed)],
    )  # fmt: skip
    trainer.train(resume_from_checkpoint=str(resumed) if resumed else None)
    if place.world > 1:
        dist.barrier()
    if place.rank == 0:
        found(OUTPUT / f"checkpoint-{trainer.state.global_step}", place, place.world)
        emit("job.completed", step=trainer.state.global_step)


if __name__ == "__main__":
    launch(work, worlds=WORLDS)
