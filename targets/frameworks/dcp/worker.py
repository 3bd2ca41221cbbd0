"""One rank: joins the group, and runs the program of its experiment."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from datetime import timedelta

import torch
import torch.distributed as dist

from chaos.inside import emit, hello
from targets.frameworks.dcp.job import Job
from targets.frameworks.dcp.settings import Settings


def work(settings: Settings, rank: int, epoch: int, port: int) -> None:
    """The whole life of a rank. Ends the process: 0 when the program returned, 1 when it raised."""
    hello(f"worker-{rank}", role="worker", rank=rank)
    torch.set_num_threads(1)
    code = 0
    try:
        if settings.world > 1:
            dist.init_process_group(
                "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=settings.world,
                timeout=timedelta(seconds=settings.group_timeout),
            )  # fmt: skip
        program = importlib.import_module(f"targets.frameworks.dcp.{settings.program.replace('-', '_')}")
        if settings.library not in ("installed", program.VARIANT):
            raise ValueError(f"{settings.program} knows installed and {program.VARIANT}, not {settings.library}")
        program.run(Job(settings, rank, epoch))
    except BaseException as error:
        traceback.print_exc()
        emit("program.failed", rank=rank, epoch=epoch, error=f"{type(error).__name__}: {error}"[:300])
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # a thread that waits in a collective does not hold it up
