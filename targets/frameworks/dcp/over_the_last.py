"""facebookresearch/metaseq#53: a save that fails leaves empty files under the names that a load believes.

Every save goes to the same name. DCP opens a shard for writing where the last one lies, so that a save without room
takes the last checkpoint with it, and leaves its `.metadata`. Guarded: a folder of its own for each save.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import CheckpointException
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

from chaos.inside import emit
from targets.frameworks.dcp.disk import metadata_of, named, say_committed, written
from targets.frameworks.dcp.job import Job, folder
from targets.frameworks.dcp.resume import complete

VARIANT = "guarded"


def run(job: Job) -> None:
    last = _last(job)
    if last is not None:
        _restore(job, last)
    job.formed(job.generation)
    while job.step < job.settings.steps:
        job.train_step()
        if job.due:
            _save(job)


def _last(job: Job) -> Path | None:
    if job.settings.guarded:
        return folder(job.settings, complete(job)[-1]) if complete(job) else None
    path = job.settings.checkpoints / "last"
    return path if (path / ".metadata").exists() else None


def _save(job: Job) -> None:
    own = job.settings.guarded
    path = folder(job.settings, job.step) if own else job.settings.checkpoints / "last"
    cut = {"generation": job.generation, "step": job.step, "epoch": job.epoch}
    job.say_begun()
    job.say_saved()
    model, optimizer = get_state_dict(job.model, job.optimizer)
    state = {"model": model, "optimizer": optimizer, "step": job.step}
    try:
        dcp.save(state, checkpoint_id=path)
    except CheckpointException as error:
        emit("checkpoint.aborted", generation=job.generation, reason=f"{type(error).__name__}; {_listing(path)}"[:300])
        if not own:
            _say_gone(job, path)
        raise
    say_committed(path, **cut)
    if not own and job.generation > 1:
        emit("checkpoint.removed", generation=job.generation - 1)  # it lies over it


def _say_gone(job: Job, path: Path) -> None:
    """The checkpoint that lay there before, where its pieces are not there any more."""
    metadata = metadata_of(path)
    if metadata is not None and set(named(metadata)) != set(written(path, metadata)):
        emit("checkpoint.removed", generation=job.generation - 1)


def _restore(job: Job, path: Path) -> None:
    model, optimizer = get_state_dict(job.model, job.optimizer)
    state: dict[str, Any] = {"model": model, "optimizer": optimizer, "step": 0}
    dcp.load(state, checkpoint_id=path)
    set_state_dict(
        job.model, job.optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"]
    )  # fmt: skip
    job.step = int(state["step"])
    job.say_loaded(job.generation)


def _listing(path: Path) -> str:
    return ", ".join(sorted(f"{file.name}: {file.stat().st_size} bytes" for file in path.iterdir()))
