"""`python -m targets.frameworks.elastic.rejoin`: a replica that comes back, and gets its state from the other.

Replica 0 keeps its optimizer's `state_dict()` from the beginning, as trainers do that hand it out again and again: the
tensors in it are those of the optimizer, so they are always the newest. The learning rate in it is a copy.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import nullcontext
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from chaos.inside import emit, hello, recovery_path
from targets.frameworks.elastic.place import LIBRARY, NODE, SETTINGS, as_fork, digest, end_job, head_store, index

ME = f"replica-{index()}"


class Replica:
    """What one replica holds."""

    def __init__(self) -> None:
        torch.manual_seed(7)
        self.model = torch.nn.Linear(16, 1)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.05)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda step: 0.9**step)
        self.cached = self.optimizer.state_dict()
        self.step = 0

    def hand_out(self) -> dict[str, Any]:
        optimizer = self.optimizer.state_dict()
        if LIBRARY != "guarded":
            optimizer = {"state": optimizer["state"], "param_groups": self.cached["param_groups"]}
        return {
            "model": self.model.state_dict(), "optimizer": optimizer, "schedule": self.schedule.state_dict(),
            "step": self.step,
        }  # fmt: skip

    def take(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.schedule.load_state_dict(state["schedule"])
        self.step = state["step"]

    def digests(self) -> dict[str, str]:
        moments = [v for s in self.optimizer.state.values() for v in s.values()]
        rates = [group["lr"] for group in self.optimizer.param_groups]
        return {
            "model": digest(self.model.parameters()), "optimizer": digest(moments),
            "schedule": digest([*rates, self.schedule.last_epoch]),
        }  # fmt: skip


def train(replica: Replica, epoch: int) -> None:
    rank = dist.get_rank()
    model = DistributedDataParallel(replica.model)
    while replica.step < SETTINGS["steps"]:
        time.sleep(SETTINGS["step_seconds"])
        step = replica.step + 1
        batch = torch.randn(8, 16, generator=torch.Generator().manual_seed(step))
        replica.optimizer.zero_grad()
        model(batch[rank::2]).square().mean().backward()
        replica.optimizer.step()
        replica.schedule.step()
        with torch.no_grad():  # of the whole batch: the same on both, as long as both hold the same
            loss = replica.model(batch).square().mean()
        replica.step = step
        emit("step.completed", step=step, rank=rank, world=2, epoch=epoch, loss=repr(loss.item()))


def regroup(control: dist.Store, epoch: int, rank: int) -> None:
    store = dist.PrefixStore(f"epoch-{epoch}", control)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=2, timeout=timedelta(seconds=10))


def share(replica: Replica, rank: int, epoch: int) -> None:
    """Whoever joins gets what the other one holds."""
    state = [replica.hand_out() if rank == 0 else None]
    dist.broadcast_object_list(state, src=0)
    if rank == 1:
        assert state[0] is not None
        replica.take(state[0])
    if epoch > 1:
        source = "memory" if rank == 0 else "peer"
        emit(
            "state.resumed", step=replica.step, rank=rank, world=2, epoch=epoch, state=replica.digests(), source=source
        )


def lead(control: dist.Store) -> None:
    """Replica 0: goes on with what it holds, whoever the other one is."""
    replica = Replica()
    for epoch in range(1, 4):
        control.wait([f"joiner/{epoch}"], timedelta(seconds=120))
        control.set(f"epoch/{epoch}", "")
        with recovery_path("replica.rejoin") if epoch > 1 else nullcontext():
            regroup(control, epoch, 0)
            emit("group.formed", epoch=epoch, world=2, generation=0, step=replica.step, live=epoch > 1)
            share(replica, 0, epoch)
        try:
            train(replica, epoch)
        except RuntimeError as error:
            emit("failure.detected", member="replica-1", reason=str(error)[:120], **{"class": "fail-stop"})
            dist.destroy_process_group()  # may last as long as the group's timeout: a thread of gloo still waits
        else:
            return end_job(control, replica.step)
    return end_job(control, replica.step, failed="replica 1 died too often")


def follow(control: dist.Store) -> None:
    epoch = control.add("joiners", 1)
    control.set(f"joiner/{epoch}", "")
    control.wait([f"epoch/{epoch}"], timedelta(seconds=120))
    replica = Replica()
    regroup(control, epoch, 1)
    share(replica, 1, epoch)
    train(replica, epoch)


def work() -> int:
    hello(ME, role="worker", node=NODE, rank=index())
    control = head_store()
    if index() == 0:
        lead(control)
    else:
        follow(control)
    return 0


def main() -> int:
    hello(f"keeper-{index()}", role="keeper", node=NODE)
    while (code := os.waitstatus_to_exitcode(os.waitpid(as_fork(work), 0)[1])) and index() == 1:
        time.sleep(SETTINGS["back_off"])
    return code


if __name__ == "__main__":
    sys.exit(main())
