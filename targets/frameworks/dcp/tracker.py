"""intelligent-machine-learning/dlrover#990: the tracker names a checkpoint whose bytes are still in memory.

As it was: written when the call that saves returns, which with `async_save` is before anything is on disk. Since then:
when the save has ended.
"""

from __future__ import annotations

import os
from concurrent.futures import Future
from typing import Any

import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict

from chaos.inside import emit
from targets.frameworks.dcp.disk import say_committed
from targets.frameworks.dcp.job import Job, folder
from targets.frameworks.dcp.resume import restore


def run(job: Job) -> None:
    tracker = job.settings.checkpoints / "latest"
    pending: Future[Any] | None = None
    if tracker.exists():
        restore(job, int(tracker.read_text()))
    job.formed(job.generation)
    while job.step < job.settings.steps:
        job.train_step()
        if pending is not None and pending.done():
            _saved(job, pending)
            pending = None
        if job.due:
            _saved(job, pending)
            pending = _begin(job)
    _saved(job, pending)


def _begin(job: Job) -> Future[Any]:
    step, generation = job.step, job.generation
    job.say_begun()
    job.say_saved()
    model, optimizer = get_state_dict(job.model, job.optimizer)
    state = {"model": model, "optimizer": optimizer}
    saving: Future[Any] = dcp.async_save(state, checkpoint_id=folder(job.settings, step))
    if job.settings.as_it_was:
        _track(job, step, generation)
    # What comes next belongs to this save, and must not be another one's by then.
    saving.cut = step, generation  # type: ignore[attr-defined]
    return saving


def _saved(job: Job, saving: Future[Any] | None) -> None:
    if saving is None:
        return
    saving.result()
    if not job.settings.as_it_was:
        _track(job, *saving.cut)  # type: ignore[attr-defined]


def _track(job: Job, step: int, generation: int) -> None:
    """Name it the newest: here that is the commit record."""
    new = job.settings.checkpoints / "latest.new"
    new.write_text(str(step))
    os.replace(new, job.settings.checkpoints / "latest")
    path = folder(job.settings, step)
    if not say_committed(path, generation=generation, step=step, epoch=job.epoch):
        named = [f"{path.name}/.metadata"]
        emit("checkpoint.committed", generation=generation, step=step, epoch=job.epoch, shards=named, digest="")
