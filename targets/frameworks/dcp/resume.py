"""Save and restore of a sharded job as the documentation of DCP says: the state dicts of model and optimizer."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path
from typing import Any

import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

from targets.frameworks.dcp.disk import say_outcome
from targets.frameworks.dcp.job import Job, folder, folders


def save(job: Job, group: dist.ProcessGroup | None = None) -> None:
    """A checkpoint of this step, in a folder of its own, and what the disk holds then."""
    path = folder(job.settings, job.step)
    job.say_begun()
    job.say_saved()
    model, optimizer = get_state_dict(job.model, job.optimizer)
    dcp.save({"model": model, "optimizer": optimizer}, checkpoint_id=path, process_group=group)
    if job.rank == 0:
        say_outcome(path, generation=job.generation, step=job.step, epoch=job.epoch)


def restore(job: Job, step: int) -> None:
    """Go on from the checkpoint of that step."""
    generation = step // job.settings.checkpoint_every
    job.say_loading(generation)
    model, optimizer = get_state_dict(job.model, job.optimizer)
    state: dict[str, Any] = {"model": model, "optimizer": optimizer}
    dcp.load(state, checkpoint_id=folder(job.settings, step))
    set_state_dict(
        job.model, job.optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"]
    )  # fmt: skip
    job.step = step
    job.say_loaded(generation)


def in_background(state: dict[str, Any], path: Path, group: dist.ProcessGroup | None = None) -> Future[Any]:
    """`async_save`, which returns a future unless it is given a stager."""
    saving = dcp.async_save(state, checkpoint_id=path, process_group=group)
    assert isinstance(saving, Future)
    return saving


def complete(job: Job) -> list[int]:
    """The steps whose folder holds a `.metadata`, as this rank sees it."""
    return sorted(step for step, path in folders(job.settings).items() if (path / ".metadata").exists())


def train(job: Job, group: dist.ProcessGroup | None = None) -> None:
    """To the end, with a checkpoint wherever one is due."""
    job.formed(job.generation)
    while job.step < job.settings.steps:
        job.train_step()
        if job.due:
            save(job, group)
