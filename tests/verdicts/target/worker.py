"""One process of the tiny target: `worker.py RANK`."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from itertools import count

from chaos import inside


def main(rank: int, steps: int, tick: float, trouble: str) -> int:
    inside.hello(os.environ["CHAOS_MEMBER"], role="worker" if rank else "leader", rank=rank)
    if trouble == "dies-at-start":
        print("no room for another model", flush=True)
        return 5
    if trouble == "never-ready":
        signal.pause()
    if trouble == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    inside.emit("worker.ready")
    for step in count(1) if rank else range(1, steps + 1):  # the worker is there as long as the leader
        inside.point("step.begin", step=step, rank=rank)
        if step > steps / 2 and trouble == "crash" and rank == 0:
            return 3
        if step > steps / 2 and trouble == "hang":
            signal.pause()
        time.sleep(tick)
        more = {"padding": "x" * 4000} if trouble == "flood" and rank == 0 else {}
        inside.emit("step.completed", step=step, rank=rank, loss="1.0", samples=[2 * step + rank], **more)
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), **json.loads(os.environ["CHAOS_SETTINGS"])))
