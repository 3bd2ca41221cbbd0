"""`python -m targets.frameworks.elastic.throttled`: one rank of a job that saves to an object store, one shard a rank.

A rank whose upload fails leaves the checkpoint out, as one does with an error that passes; the others are in the
barrier that comes before the manifest.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import torch
import torch.distributed as dist
from botocore.exceptions import ClientError

from chaos.inside import emit, hello, point
from targets.frameworks.elastic.bucket import BUCKET, client
from targets.frameworks.elastic.place import LIBRARY, NODE, SETTINGS, end_job, head_store, index

SAVE_EVERY = 10


def save(s3: Any, step: int, rank: int) -> None:
    generation = step // SAVE_EVERY
    if rank == 0:
        emit("checkpoint.begun", generation=generation, step=step, epoch=1, world=2)
    point("save.begin", generation=generation, rank=rank)
    stored = True
    try:
        s3.put_object(Bucket=BUCKET, Key=f"step-{step}/shard-{rank}", Body=bytes(4096))
    except ClientError as error:
        print(f"checkpoint at step {step} left out: {error}", flush=True)
        stored = False
    if LIBRARY == "guarded":  # all ranks hear how all fared, whatever became of their own upload
        outcome = torch.tensor(int(stored))
        dist.all_reduce(outcome, op=dist.ReduceOp.MIN)
        stored = bool(outcome.item())
    elif stored:
        dist.barrier()
    if not stored:
        if rank == 0:
            emit("checkpoint.aborted", generation=generation, reason="a shard could not be stored")
        return
    if rank == 0:
        names = [f"shard-{r}" for r in range(2)]
        s3.put_object(Bucket=BUCKET, Key=f"step-{step}/manifest.json", Body=json.dumps(names).encode())
        emit("checkpoint.committed", generation=generation, step=step, epoch=1, shards=names)


def main() -> int:
    rank, world = index(), SETTINGS["ranks"]
    hello(f"rank-{rank}", role="worker", node=NODE, rank=rank)
    control, s3 = head_store(), client()
    dist.init_process_group("gloo", store=dist.PrefixStore("job", control), rank=rank, world_size=world)
    if rank == 0:
        emit("group.formed", epoch=1, world=world, generation=0, step=0)
    for step in range(1, SETTINGS["steps"] + 1):
        time.sleep(SETTINGS["step_seconds"])
        total = torch.ones(1)
        dist.all_reduce(total)
        emit("step.completed", step=step, rank=rank, world=world, epoch=1, loss=repr(total.item()))
        if step % SAVE_EVERY == 0:
            save(s3, step, rank)
    if rank == 0:
        end_job(control, SETTINGS["steps"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
