"""`python -m targets.frameworks.elastic.frozen`: one rank of a job over gloo, which ends when a peer is gone."""

from __future__ import annotations

import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist

from chaos.inside import emit, hello
from targets.frameworks.elastic.place import LIBRARY, NODE, SETTINGS, end_job, head_store, index


def main() -> int:
    rank, world = index(), SETTINGS["ranks"]
    hello(f"rank-{rank}", role="worker", node=NODE, rank=rank)
    control = head_store()
    timeout = timedelta(seconds=SETTINGS["timeout"]) if LIBRARY == "guarded" else None  # None: gloo's 30 minutes
    dist.init_process_group(
        "gloo", store=dist.PrefixStore("job", control), rank=rank, world_size=world, timeout=timeout
    )
    if rank == 0:
        emit("group.formed", epoch=1, world=world, generation=0, step=0)
    for step in range(1, SETTINGS["steps"] + 1):
        time.sleep(SETTINGS["step_seconds"])
        total = torch.ones(1)
        try:
            dist.all_reduce(total)
        except RuntimeError as error:
            emit("failure.detected", member=f"rank-{1 - rank}", reason=str(error)[:120], **{"class": "hang"})
            end_job(control, step - 1, failed=f"rank {rank} lost its peer")
            return 1
        emit("step.completed", step=step, rank=rank, world=world, epoch=1, loss=repr(total.item()))
    if rank == 0:
        end_job(control, SETTINGS["steps"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
