"""KempnerInstitute/KempnerForge#104, #105: a save in the background and the main thread share one process group.

`async_save` runs its collectives in a thread, on the default group unless told otherwise. The main thread's barrier
goes through the same group, and the ranks issue the two in different order once one of them writes more slowly.
Guarded: a group of its own for the saves.
"""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import torch.distributed as dist

from targets.frameworks.dcp.disk import say_outcome
from targets.frameworks.dcp.job import Job, folder
from targets.frameworks.dcp.resume import in_background

VARIANT = "guarded"


def run(job: Job) -> None:
    job.group = dist.new_group()  # as NCCL is for gradients: only save and barrier are in question
    saves = dist.new_group() if job.settings.guarded else None
    pending: tuple[Future[Any], int] | None = None
    job.formed()
    while job.step < job.settings.steps:
        job.train_step()
        dist.barrier()
        if job.due:
            _finish(job, pending)
            job.say_begun()
            job.say_saved()
            state = {"model": job.model.state_dict(), "optimizer": job.optimizer.state_dict()}
            pending = in_background(state, folder(job.settings, job.step), saves), job.step
    _finish(job, pending)


def _finish(job: Job, pending: tuple[Future[Any], int] | None) -> None:
    """Back to back: the last save is awaited before the next one begins."""
    if pending is None:
        return
    saving, step = pending
    saving.result()
    if job.rank == 0:
        generation = step // job.settings.checkpoint_every
        say_outcome(folder(job.settings, step), generation=generation, step=step, epoch=job.epoch)
