"""`python -m targets.frameworks.elastic.late_save`: one rank of a job whose ranks show each other that they live.

After each step all ranks meet in `dist.monitored_barrier`, which names who did not come in time. Rank 1 saves now and
then, and comes late.
"""

from __future__ import annotations

import os
import re
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist

from chaos.inside import emit, hello
from targets.frameworks.elastic.place import DATA, LIBRARY, NODE, SETTINGS, end_job, head_store, index

SAVE_EVERY = 10
WHILE_SAVING = 60  # seconds that a phase may take in which a rank saves


def save(step: int) -> None:
    folder = DATA / "saved"
    folder.mkdir(exist_ok=True)
    with open(folder / f"step-{step}.pt", "wb") as file:
        torch.save({"step": step}, file)
        file.flush()
        os.fsync(file.fileno())


def main() -> int:
    rank, world = index(), SETTINGS["ranks"]
    hello(f"rank-{rank}", role="worker", node=NODE, rank=rank)
    control = head_store()
    dist.init_process_group("gloo", store=dist.PrefixStore("job", control), rank=rank, world_size=world)
    if rank == 0:
        emit("group.formed", epoch=1, world=world, generation=0, step=0)
    for step in range(1, SETTINGS["steps"] + 1):
        time.sleep(SETTINGS["step_seconds"])
        saving = step % SAVE_EVERY == 0
        if saving and rank == 1:
            save(step)
        patience = WHILE_SAVING if saving and LIBRARY == "guarded" else SETTINGS["timeout"]
        try:
            dist.monitored_barrier(timeout=timedelta(seconds=patience))
        except RuntimeError as error:
            if rank == 0:  # the one that is told who is missing
                missing = re.search(r"Rank (\d+) failed", str(error))
                who = f"rank-{missing[1]}" if missing else "rank-1"
                emit("failure.detected", member=who, reason=str(error)[:120], **{"class": "hang"})
                end_job(control, step - 1, failed=f"{who} was taken for dead")
            return 1
        emit("step.completed", step=step, rank=rank, world=world, epoch=1)
    if rank == 0:
        end_job(control, SETTINGS["steps"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
