"""`python -m targets.frameworks.dcp.supervisor`: starts the ranks, and all of them again when one of them dies.

What `torchrun --max-restarts` does, in one process that has imported torch already: a rank starts in milliseconds.
"""

from __future__ import annotations

import multiprocessing
import os
import socket
import sys
from importlib.metadata import version
from multiprocessing.connection import wait

from chaos.inside import emit, hello
from targets.frameworks.dcp.settings import Settings


def main() -> int:
    """Until all ranks have ended well, or restarts are used up."""
    settings = Settings.from_environment()
    hello("supervisor", role="supervisor")
    settings.checkpoints.mkdir(exist_ok=True)
    emit(
        "job.started",
        steps=settings.steps, checkpoint_every=settings.checkpoint_every, torch=version("torch"),
    )  # fmt: skip
    for epoch in range(1, settings.max_restarts + 2):
        emit("group.forming", epoch=epoch, world=settings.world, reason="start" if epoch == 1 else "restart")
        if _once(settings, epoch):
            emit("job.completed", step=settings.steps)
            return 0
    emit("job.failed", reason=f"{settings.max_restarts} restarts did not help")
    return 1


def _once(settings: Settings, epoch: int) -> bool:
    """One incarnation of the group; whether every rank ended well."""
    from targets.frameworks.dcp.worker import work

    context = multiprocessing.get_context("fork")
    port = _free_port()
    ranks = [context.Process(target=work, args=(settings, rank, epoch, port)) for rank in range(settings.world)]
    for process in ranks:
        process.start()
    left = dict(enumerate(ranks))
    while left:
        wait([process.sentinel for process in left.values()])
        for rank, process in [(r, p) for r, p in left.items() if not p.is_alive()]:
            process.join()
            del left[rank]
            if code := process.exitcode:
                reason = f"exit {code}"
                emit("failure.detected", member=f"worker-{rank}", reason=reason, **{"class": "fail-stop"})
                for other in left.values():
                    other.kill()
                    other.join()
                return False
    return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # threads that a library left behind do not hold it up
