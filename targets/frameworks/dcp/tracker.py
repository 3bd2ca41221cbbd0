"""intelligent-machine-learning/dlrover#990: the tracker names a checkpoint whose bytes are still in memory.

As it was: written when the call that saves returns, which with `async_save` is before anything is on disk. Since then:
when the save has ended.
"""

from __future__ import annotations

import hashlib
import os
from concurrent.futures import Future
from typing import Any

from torch.distributed.checkpoint.state_dict import get_state_dict

from chaos.inside import emit
from targets.frameworks.dcp.disk import say_committed
from targets.frameworks.dcp.job import Job, folder
from targets.frameworks.dcp.resume import in_background, restore

VARIANT = "as-it-was"
Pending = tuple[Future[Any], int]  # a save, and the step of its cut


def run(job: Job) -> None:
    tracker = job.settings.checkpoints / "latest"
    pending: Pending | None = None
    if tracker.exists():
        restore(job, int(tracker.read_text()))
    job.formed(job.generation)
    while job.step < job.settings.steps:
        job.train_step()
        if pending is not None and pending[0].done():
            _end(job, pending)
            pending = None
        if job.due:
            _end(job, pending)
            pending = _begin(job)
    _end(job, pending)


def _begin(job: Job) -> Pending:
    job.say_begun()
    job.say_saved()
    model, optimizer = get_state_dict(job.model, job.optimizer)
    state = {"model": model, "optimizer": optimizer}
    saving = in_background(state, folder(job.settings, job.step))
    if job.settings.as_it_was:
        _track(job, job.step)
    return saving, job.step


def _end(job: Job, pending: Pending | None) -> None:
    if pending is None:
        return
    saving, step = pending
    saving.result()
    if not job.settings.as_it_was:
        _track(job, step)
    else:
        _say_written(job, step)


def _track(job: Job, step: int) -> None:
    """Name it the newest: here that is the commit record."""
    generation = step // job.settings.checkpoint_every
    new = job.settings.checkpoints / "latest.new"
    new.write_text(str(step))
    os.replace(new, job.settings.checkpoints / "latest")
    path = folder(job.settings, step)
    if not say_committed(path, generation=generation, step=step, epoch=job.epoch):
        # What the tracker promises is a folder that can be loaded; what that consists of, nobody can know by now.
        emit(
            "checkpoint.committed", generation=generation, step=step, epoch=job.epoch, shards=[_record(step)], digest=""
        )


def _say_written(job: Job, step: int) -> None:
    """The save that the tracker named before is on the disk now."""
    content = (folder(job.settings, step) / ".metadata").read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    generation = step // job.settings.checkpoint_every
    emit(
        "checkpoint.shard_written",
        generation=generation, name=_record(step), rank=job.rank, bytes=len(content), digest=digest,
    )  # fmt: skip


def _record(step: int) -> str:
    return f"step-{step}/.metadata"
