"""`python -m targets.frameworks.elastic.head`: the store of a job on a node of its own, and the end of the job.

The store is a plain `TCPStore`, as one runs it beside a job so that no node of the job is needed for the others.
"""

from __future__ import annotations

import json
import sys
from datetime import timedelta

import torch.distributed as dist

from chaos.inside import emit, hello
from targets.frameworks.elastic.place import ADDRESS, END, NODE, PORT, SETTINGS


def main() -> int:
    hello("head", role="head", node=NODE)
    store = dist.TCPStore(ADDRESS, PORT, is_master=True, wait_for_workers=False, timeout=timedelta(days=1))
    emit("job.started", steps=SETTINGS["steps"])
    emit("head.ready")
    said = json.loads(store.get(END))
    if said["failed"]:
        emit("job.failed", reason=said["failed"])
        return 1
    emit("job.completed", step=said["step"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
