"""huggingface/transformers#25849, #23034: the optimizer of a sharded job is saved by rank 0, for itself only.

As it was: `torch.save(optimizer.state_dict())` on rank 0, which every rank loads. Since then: the state dicts of DCP.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp

from targets.frameworks.dcp.disk import say_outcome
from targets.frameworks.dcp.job import Job, folder
from targets.frameworks.dcp.resume import complete, restore, train

VARIANT = "as-it-was"


def run(job: Job) -> None:
    steps = complete(job)
    if not job.settings.as_it_was:
        if steps:
            restore(job, steps[-1])
        train(job)
        return
    if steps:
        _restore_as_it_was(job, steps[-1])
    job.formed(job.generation)
    while job.step < job.settings.steps:
        job.train_step()
        if job.due:
            _save_as_it_was(job)


def _save_as_it_was(job: Job) -> None:
    path = folder(job.settings, job.step)
    job.say_begun()
    job.say_saved()
    path.mkdir(exist_ok=True)
    if job.rank == 0:
        torch.save(job.optimizer.state_dict(), path / "optimizer.pt")
    dcp.save({"model": job.model.state_dict()}, checkpoint_id=path)
    if job.rank == 0:
        say_outcome(path, generation=job.generation, step=job.step, epoch=job.epoch)


def _restore_as_it_was(job: Job, step: int) -> None:
    path = folder(job.settings, step)
    generation = step // job.settings.checkpoint_every
    job.say_loading(generation)
    state = {"model": job.model.state_dict()}
    dcp.load(state, checkpoint_id=path)
    job.model.load_state_dict(state["model"])
    job.optimizer.load_state_dict(torch.load(path / "optimizer.pt", weights_only=False))
    dist.barrier()
    job.step = step
    job.say_loaded(generation)
