"""pytorch/pytorch#191391: a writer thread of `FileSystemWriter` fails, and `save` publishes `.metadata` all the same.

Guarded: the metadata that `save` returns is held against what it says was written, and a save with a hole is undone
and done again.
"""

from __future__ import annotations

from pathlib import Path

import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import CheckpointException, FileSystemWriter

from targets.frameworks.dcp.disk import named, say_outcome, written
from targets.frameworks.dcp.job import Job, folder

VARIANT = "guarded"
THREADS = 8  # with so many, the first file is never the one of the main thread, which starts the others first


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
    error = _save(job, path)
    if job.settings.guarded and error is None and _hole(path):
        (path / ".metadata").unlink()
        error = _save(job, path)
    say_outcome(path, **cut, error=error)


def _save(job: Job, path: Path) -> CheckpointException | None:
    state = {"model": job.model.state_dict(), "optimizer": job.optimizer.state_dict()}
    try:
        dcp.save(state, storage_writer=FileSystemWriter(path, thread_count=THREADS))
    except CheckpointException as error:
        return error
    return None


def _hole(path: Path) -> bool:
    metadata = dcp.FileSystemReader(path).read_metadata()
    return set(named(metadata)) != set(written(path, metadata))
