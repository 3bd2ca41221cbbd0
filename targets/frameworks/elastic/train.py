"""The script that torchrun starts: DDP over gloo, resumed from the newest saved step.

As its documentation says: ranks and addresses from torchrun's environment, state from a snapshot that rank 0 keeps.
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from chaos.inside import emit, hello
from targets.frameworks.elastic.place import DATA, LIBRARY, NODE, SETTINGS, end_job, head_store

SNAPSHOT = DATA / "snapshot.pt"


def die_with_the_agent() -> None:
    """The work-around for orphans: the kernel ends this process when its parent ends."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() == 1:
        os._exit(1)


def load(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> tuple[int, int]:
    """The step to go on from, and how often the job was begun."""
    if not SNAPSHOT.exists():
        return 0, 0
    saved = torch.load(SNAPSHOT)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    return saved["step"], saved["epoch"]


def save(model: torch.nn.Module, optimizer: torch.optim.Optimizer, step: int, epoch: int) -> None:
    saved = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step, "epoch": epoch}
    torch.save(saved, SNAPSHOT.with_suffix(".new"))
    os.replace(SNAPSHOT.with_suffix(".new"), SNAPSHOT)


def main() -> None:
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    hello(f"worker-{NODE}", role="worker", node=NODE, rank=rank)
    guard = SETTINGS["guard"] if LIBRARY == "guarded" else ""
    if guard == "parent":
        die_with_the_agent()
    timeout = timedelta(seconds=SETTINGS["timeout"]) if guard == "timeout" else None  # None: gloo's 30 minutes
    dist.init_process_group("gloo", timeout=timeout)
    torch.manual_seed(7)
    plain = torch.nn.Linear(16, 1)
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.01)
    step, epoch = load(plain, optimizer)
    model = DistributedDataParallel(plain)
    places: list[str] = [""] * world
    dist.all_gather_object(places, NODE)
    epoch += 1
    if rank == 0:
        save(plain, optimizer, step, epoch)
        emit("group.formed", epoch=epoch, world=world, nodes=places, generation=0, step=step)
    try:
        train(model, optimizer, step, epoch)
    except RuntimeError as error:  # of a collective: peers are gone, or silent for longer than the timeout
        peers = [place for place in places if place != NODE]
        emit(
            "failure.detected",
            member=f"worker-{peers[0] if peers else NODE}",
            reason=str(error)[:120],
            **{"class": "fail-stop"},
        )
        raise
    dist.destroy_process_group()


def train(model: DistributedDataParallel, optimizer: torch.optim.Optimizer, step: int, epoch: int) -> None:
    rank, world = dist.get_rank(), dist.get_world_size()
    while step < SETTINGS["steps"]:
        time.sleep(SETTINGS["step_seconds"])
        step += 1
        batch = torch.randn(8, 16, generator=torch.Generator().manual_seed(step))
        loss = model(batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0:
            save(model.module, optimizer, step, epoch)
        dist.barrier()  # so that nobody is at work beyond what is saved
        emit("step.completed", step=step, rank=rank, world=world, epoch=epoch, loss=repr(loss.item()))
    if rank == 0:
        end_job(head_store(), step)


if __name__ == "__main__":
    main()
