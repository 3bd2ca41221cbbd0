"""pytorch/torchtitan#930: a load right after `async_save` returned finds a folder, and no checkpoint in it.

Guarded: the future that `async_save` returns is waited for before anybody is sent to that folder.
"""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import CheckpointException

from chaos.inside import emit
from targets.frameworks.dcp.disk import say_committed
from targets.frameworks.dcp.job import Job, digest, folder
from targets.frameworks.dcp.resume import in_background

VARIANT = "guarded"


def run(job: Job) -> None:
    """The training ends with a save, and what was saved is evaluated."""
    job.formed()
    while job.step < job.settings.steps:
        job.train_step()
        if job.due:
            saving = _begin(job)
            if job.step < job.settings.steps or job.settings.guarded:
                saving.result()
            told = _say_committed(job)
    _evaluate(job)
    saving.result()
    if not told:
        _say_committed(job)


def _begin(job: Job) -> Future[Any]:
    job.say_begun()
    job.say_saved()
    state = {"model": job.model.state_dict(), "optimizer": job.optimizer.state_dict()}
    return in_background(state, folder(job.settings, job.step))


def _say_committed(job: Job) -> bool:
    """What the disk holds of this save by now."""
    return say_committed(
        folder(job.settings, job.step), generation=job.generation, step=job.step, epoch=job.epoch
    )  # fmt: skip


def _evaluate(job: Job) -> None:
    """Load what was just saved into a model of its own, as an evaluation beside the training does."""
    other = Job(job.settings, job.rank, job.epoch)
    job.say_loading(job.generation)
    state = {"model": other.model.state_dict()}
    try:
        dcp.load(state, checkpoint_id=folder(job.settings, job.step))
    except CheckpointException as error:
        emit("program.failed", rank=job.rank, epoch=job.epoch, error=str(error)[:300])
        return
    other.model.load_state_dict(state["model"])
    parts = {"model": digest(other.model.named_parameters())}
    emit("checkpoint.loaded", generation=job.generation, step=job.step, **job.who, state=parts)
