"""pytorch/pytorch#126881, KempnerInstitute/KempnerForge#115: moments that a fresh AdamW does not have yet stay unset.

DCP loads in place, into what the state dict holds. AdamW makes its moments in its first step, so at a resume there is
nothing to load into, and `load` says nothing of what it left out. Guarded: the state dicts of
`torch.distributed.checkpoint.state_dict`, which fill the optimizer first.
"""

from __future__ import annotations

from typing import Any

import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

from targets.frameworks.dcp.disk import say_outcome
from targets.frameworks.dcp.job import Job, folder, folders

VARIANT = "guarded"


def run(job: Job) -> None:
    complete = [step for step, path in folders(job.settings).items() if (path / ".metadata").exists()]
    if complete:
        _resume(job, max(complete))
    job.formed(job.generation)
    while job.step < job.settings.steps:
        job.train_step()
        if job.due:
            job.say_begun()
            job.say_saved()
            path = folder(job.settings, job.step)
            dcp.save(_state(job), checkpoint_id=path)
            say_outcome(path, generation=job.generation, step=job.step, epoch=job.epoch)


def _resume(job: Job, step: int) -> None:
    generation = step // job.settings.checkpoint_every
    job.say_loading(generation)
    state = _state(job)
    dcp.load(state, checkpoint_id=folder(job.settings, step))
    if job.settings.guarded:
        model, optimizer = state["model"], state["optimizer"]
        set_state_dict(job.model, job.optimizer, model_state_dict=model, optim_state_dict=optimizer)
    else:
        job.model.load_state_dict(state["model"])
        job.optimizer.load_state_dict(state["optimizer"])
    job.step = step
    job.say_loaded(generation)


def _state(job: Job) -> dict[str, Any]:
    if job.settings.guarded:
        model, optimizer = get_state_dict(job.model, job.optimizer)
        return {"model": model, "optimizer": optimizer}
    return {"model": job.model.state_dict(), "optimizer": job.optimizer.state_dict()}
