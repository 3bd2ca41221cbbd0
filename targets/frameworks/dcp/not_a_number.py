"""kyutai-labs/pocket-tts#262: one gradient that is no number poisons the weights, and retention removes the good ones.

Guarded: `clip_grad_norm_(…, error_if_nonfinite=True)`, and a step without an update where it raises.
"""

from __future__ import annotations

import shutil

import torch

from chaos.inside import emit, sites, tamper
from targets.frameworks.dcp.job import Job, folder
from targets.frameworks.dcp.resume import save

VARIANT = "guarded"
KEEP = 2


def run(job: Job) -> None:
    sites("gradient")
    job.watch = _watch
    job.formed()
    while job.step < job.settings.steps:
        job.train_step()
        if job.due:
            save(job)
            _retain(job)


def _watch(job: Job) -> bool:
    """Between backward and update: whether to take the step."""
    for parameter in job.model.parameters():
        if parameter.grad is not None:
            tamper("gradient", parameter.grad, step=job.step + 1, rank=job.rank, epoch=job.epoch)
    if not job.settings.guarded:
        return True
    try:
        torch.nn.utils.clip_grad_norm_(job.model.parameters(), 1.0, error_if_nonfinite=True)
    except RuntimeError:
        return False
    return True


def _retain(job: Job) -> None:
    old = job.step - KEEP * job.settings.checkpoint_every
    if old > 0:
        shutil.rmtree(folder(job.settings, old))
        emit("checkpoint.removed", generation=old // job.settings.checkpoint_every)
