"""KempnerInstitute/KempnerForge#50: each rank looks for a checkpoint itself, and one of them sees an older folder.

`dcp.load` is a collective. A rank that sees no `.metadata` skips it and begins to train, which is another collective.
As it was: each rank looks. Since then: rank 0 looks, and tells the others.
"""

from __future__ import annotations

import torch.distributed as dist

from targets.frameworks.dcp.job import Job
from targets.frameworks.dcp.resume import complete, restore, train

VARIANT = "as-it-was"


def run(job: Job) -> None:
    steps = complete(job)
    if not job.settings.as_it_was:
        told = [steps]
        dist.broadcast_object_list(told, src=0)
        (steps,) = told
    if steps:
        restore(job, steps[-1])
    train(job)
