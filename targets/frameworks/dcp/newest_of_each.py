"""NVIDIA/physicsnemo#2010: each part of a checkpoint is looked for by itself, and the newest of each is loaded.

Model and optimizer are two checkpoints of DCP in one folder. As it was: each is taken from the newest folder that has
it. Since then: from the newest folder that has both.
"""

from __future__ import annotations

import shutil
from typing import Any

import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import (
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)

from chaos.inside import emit
from targets.frameworks.dcp.disk import say_parts_committed, say_read
from targets.frameworks.dcp.job import Job, folder, folders

VARIANT = "as-it-was"
PARTS = ("model", "optimizer")


def run(job: Job) -> None:
    present = {part: _steps(job, part) for part in PARTS}
    if job.settings.as_it_was:
        chosen = {part: max(steps, default=0) for part, steps in present.items()}
    else:
        chosen = dict.fromkeys(PARTS, max(present["model"] & present["optimizer"], default=0))
    if all(chosen.values()):
        _restore(job, chosen)
    job.formed(job.generation)
    while job.step < job.settings.steps:
        job.train_step()
        if job.due:
            _save(job)


def _steps(job: Job, part: str) -> set[int]:
    """Where that part lies in full: a `.metadata`, and the file of this rank."""
    names = (".metadata", "__0_0.distcp")
    return {step for step, path in folders(job.settings).items() if all((path / part / n).exists() for n in names)}


def _save(job: Job) -> None:
    path = folder(job.settings, job.step)
    job.say_begun()
    job.say_saved()
    dcp.save({"model": get_model_state_dict(job.model)}, checkpoint_id=path / "model")
    optimizer = get_optimizer_state_dict(job.model, job.optimizer)
    dcp.save({"optimizer": optimizer, "step": job.step}, checkpoint_id=path / "optimizer")
    say_parts_committed([path / part for part in PARTS], generation=job.generation, step=job.step, epoch=job.epoch)


def _restore(job: Job, chosen: dict[str, int]) -> None:
    every = job.settings.checkpoint_every
    newest = max(chosen.values())
    for step, path in sorted(folders(job.settings).items()):
        if gone := [part for part in PARTS if step not in _steps(job, part)]:
            emit("checkpoint.damaged", generation=step // every, name=gone[0], reason="a file of it is gone")
            if not job.settings.as_it_was:
                shutil.rmtree(path)  # its number is about to be used again
                emit("checkpoint.removed", generation=step // every)
    job.say_loading(newest // every)
    model: dict[str, Any] = {"model": get_model_state_dict(job.model)}
    _load(job, model, "model", chosen["model"])
    set_model_state_dict(job.model, model["model"])
    state: dict[str, Any] = {"optimizer": get_optimizer_state_dict(job.model, job.optimizer), "step": 0}
    _load(job, state, "optimizer", chosen["optimizer"])
    set_optimizer_state_dict(job.model, job.optimizer, state["optimizer"])
    job.step = int(state["step"])
    job.say_loaded(newest // every)


def _load(job: Job, state: dict[str, Any], part: str, step: int) -> None:
    path = folder(job.settings, step) / part
    dcp.load(state, checkpoint_id=path)
    say_read(path, generation=step // job.settings.checkpoint_every)
