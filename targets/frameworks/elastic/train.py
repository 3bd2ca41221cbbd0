"""The script that torchrun starts: gradients averaged over gloo, resumed from the newest saved step.

As its documentation says: ranks and addresses from torchrun's environment, state from a snapshot that rank 0 keeps. An
optimizer of torch would double what a start costs, since it imports the compiler.
"""

from __future__ import annotations

import os
import threading
import time
import traceback
from datetime import timedelta

import torch
import torch.distributed as dist

from chaos.inside import emit, hello
from targets.frameworks.elastic.place import DATA, LIBRARY, NODE, SETTINGS, end_job, head_store

SNAPSHOT = DATA / "snapshot.pt"


def die_with_the_agent() -> None:
    """The work-around for orphans: end when the parent has gone, half a second later, if nobody did it before."""

    def watch(agent: int) -> None:
        while os.getppid() == agent:
            time.sleep(0.5)
        time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, args=(os.getppid(),), daemon=True).start()


def load(model: torch.nn.Module) -> tuple[int, int]:
    """The step to go on from, and how often the job was begun."""
    if not SNAPSHOT.exists():
        return 0, 0
    saved = torch.load(SNAPSHOT)
    model.load_state_dict(saved["model"])
    return saved["step"], saved["epoch"]


def save(model: torch.nn.Module, step: int, epoch: int) -> None:
    torch.save({"model": model.state_dict(), "step": step, "epoch": epoch}, SNAPSHOT.with_suffix(".new"))
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
    model = torch.nn.Linear(16, 1)
    step, epoch = load(model)
    places: list[str] = [""] * world
    dist.all_gather_object(places, NODE)
    epoch += 1
    if rank == 0:
        save(model, step, epoch)
        emit("group.formed", epoch=epoch, world=world, nodes=places, generation=0, step=step)
    try:
        train(model, step, epoch)
    except RuntimeError as error:  # of a collective: peers are gone, or silent for longer than the timeout
        peers = [place for place in places if place != NODE]
        emit(
            "failure.detected",
            member=f"worker-{peers[0] if peers else NODE}",
            reason=str(error)[:120],
            **{"class": "fail-stop"},
        )
        traceback.print_exc()
        os._exit(1)  # an orderly exit waits for a thread of gloo, which may still wait for the peer
    dist.destroy_process_group()


def train(model: torch.nn.Module, step: int, epoch: int) -> None:
    rank, world = dist.get_rank(), dist.get_world_size()
    while step < SETTINGS["steps"]:
        time.sleep(SETTINGS["step_seconds"])
        step += 1
        batch = torch.randn(8, 16, generator=torch.Generator().manual_seed(step))
        loss = model(batch).square().mean()
        model.zero_grad()
        loss.backward()
        for weight in model.parameters():
            dist.all_reduce(weight.grad)
            weight.data -= 0.01 * weight.grad / world
        if rank == 0:
            save(model, step, epoch)
        dist.barrier()  # so that nobody is at work beyond what is saved
        emit("step.completed", step=step, rank=rank, world=world, epoch=epoch, loss=repr(loss.item()))
    if rank == 0:
        end_job(head_store(), step)


if __name__ == "__main__":
    main()
