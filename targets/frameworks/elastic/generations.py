"""`python -m targets.frameworks.elastic.generations`: ranks that form a group anew, each generation under a number.

Node n0 leads: it announces a generation at the head, and its rank 0 opens the store of the group and waits for the
other rank; who does not come in time is replaced in the next generation. Node n1 holds rank 1 until then, n2 after.
"""

from __future__ import annotations

import os
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist

from chaos.inside import emit, hello, point
from targets.frameworks.elastic.place import LIBRARY, NODE, NODES, SETTINGS, as_fork, end_job, head_store, index

ME = f"rank-{index()}"
ENDPOINT = 29500
PATIENCE = {1: 60, 2: 3, 3: 20}  # seconds for the other rank to come; longer where one has to start first
LATE = {1: 10, 2: 4, 3: 10}  # seconds that the other rank tries to get in, of a generation that is announced
RESIZE_AT = 5  # the step after which the group is formed anew, as when a node is to be added


def join(generation: int, rank: int, seconds: float) -> list[tuple[str, int]]:
    """Form the group of a generation: who is in it, by rank, and which generation each one meant."""
    port = ENDPOINT + (generation if LIBRARY == "guarded" else 0)  # guarded: an endpoint a generation
    timeout = timedelta(seconds=seconds)
    store = dist.TCPStore(NODES["n0"], port, 2, is_master=rank == 0, timeout=timeout, wait_for_workers=False)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=2, timeout=timeout)
    members: list[tuple[str, int]] = [("", 0)] * 2
    dist.all_gather_object(members, (ME, generation))
    return members


def train(generation: int, rank: int, first: int, last: int) -> None:
    for step in range(first, last + 1):
        time.sleep(SETTINGS["step_seconds"])
        total = torch.ones(1)
        dist.all_reduce(total)
        emit("step.completed", step=step, rank=rank, world=2, epoch=generation, loss=repr(total.item()))


def lead(control: dist.Store) -> int:
    """Announce one generation after the other until the job is done; the rank of each is a new process."""
    hello("leader", role="leader", node=NODE)
    for generation in (1, 2, 3):
        emit(
            "epoch.issued",
            epoch=generation,
            holder=ME,
            reason="start" if generation == 1 else "the group is formed anew",
        )
        control.set(f"generation/{generation}", "")
        _, status = os.waitpid(as_fork(lambda number=generation: first_rank(number)), 0)  # type: ignore[misc]
        if status:
            emit("failure.detected", member="rank-1", reason="did not come", **{"class": "hang"})
    control.wait(["late/over"], timedelta(seconds=120))  # however rank 1 of the second generation fared
    end_job(control, SETTINGS["steps"], failed="rank 0 ended with an error" if status else "")
    return 0


def first_rank(generation: int) -> int:
    """Rank 0 of a generation; tells who is in the group that it is in."""
    hello(ME, role="worker", node=NODE, rank=0)
    members = join(generation, 0, PATIENCE[generation])
    for rank, (who, token) in enumerate(members):
        emit(
            "write.accepted", resource=f"group/{generation}/rank-{rank}", op="join", token=token, highest=generation,
            member=who,
        )  # fmt: skip
    first, last = steps(generation)
    emit("group.formed", epoch=generation, world=2, generation=0, step=first - 1)
    train(generation, 0, first, last)
    return 0


def steps(generation: int) -> tuple[int, int]:
    return (1, RESIZE_AT) if generation == 1 else (RESIZE_AT + 1, SETTINGS["steps"])


def follow(control: dist.Store, generations: tuple[int, ...]) -> int:
    for generation in generations:
        control.wait([f"generation/{generation}"], timedelta(seconds=120))
        point("join.begin", generation=generation, rank=1)
        try:
            join(generation, 1, LATE[generation])
        except RuntimeError as error:  # nobody is there any more
            newest = max(g for g in (1, 2, 3) if control.check([f"generation/{g}"]))
            print(f"{ME} did not get into generation {generation}: {error}", flush=True)
            emit(
                "write.rejected", resource=f"group/{generation}/rank-1", op="join", token=generation, highest=newest,
                member=ME, reason="stale-epoch" if newest > generation else "timeout",
            )  # fmt: skip
            return 1
        train(generation, 1, *steps(generation))
        dist.destroy_process_group()
    return 0


def main() -> int:
    control = head_store()
    if index() == 0:
        return lead(control)
    hello(ME, role="worker", node=NODE, rank=1)
    if index() == 2:
        return follow(control, (3,))
    try:
        return follow(control, (1, 2))
    finally:
        control.set("late/over", "")


if __name__ == "__main__":
    sys.exit(main())
