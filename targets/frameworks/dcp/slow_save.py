"""meta-pytorch/torchtune#2093, deepspeedai/DeepSpeed#7533: a long save outlasts the timeout of those who wait for it.

Guarded: the save has a group of its own, whose timeout is that of a save and not that of a step.
"""

from __future__ import annotations

from datetime import timedelta

import torch.distributed as dist

from targets.frameworks.dcp.job import Job
from targets.frameworks.dcp.resume import complete, restore, train

VARIANT = "guarded"


def run(job: Job) -> None:
    saves = dist.new_group(timeout=timedelta(seconds=60)) if job.settings.guarded else None
    if steps := complete(job):
        restore(job, steps[-1])
    train(job, saves)
