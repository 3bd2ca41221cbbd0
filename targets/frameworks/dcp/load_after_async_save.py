"""pytorch/torchtitan#930: a load right after `async_save` returned finds a folder, and no checkpoint in it.

Guarded: the future that `async_save` returns is waited for before anybody is sent to that folder.
"""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import CheckpointException

from chaos.inside import emit
from targets.frameworks.dcp.disk import say_outcome
from targets.frameworks.dcp.job import Job, digest, folder


def run(job: Job) -> None:
    job.formed()
    while job.step < job.settings.steps:
        job.train_step()
        if job.due:
            _checkpoint(job)


def _checkpoint(job: Job) -> None:
    path = folder(job.settings, job.step)
    cut = {"generation": job.generation, "step": job.step, "epoch": job.epoch}
    job.say_begun()
    job.say_saved()
    state = {"model": job.model.state_dict(), "optimizer": job.optimizer.state_dict()}
    saving: Future[Any] = dcp.async_save(state, checkpoint_id=path)
    if job.settings.guarded:
        saving.result()
        say_outcome(path, **cut)
        _evaluate(job)
    else:
        _evaluate(job)
        saving.result()
        say_outcome(path, **cut)


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
