"""Where a process is, what the run asks for, and what all programs here have in common."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

PORT = 29400
END = "job/end"  # key of the head's store: how the job ended, told by whoever knows

SETTINGS: dict[str, Any] = json.loads(os.environ.get("CHAOS_SETTINGS") or "{}")
NODE = os.environ.get("CHAOS_NODE", "")
ADDRESS = os.environ.get("CHAOS_ADDRESS", "127.0.0.1")
NODES: dict[str, str] = json.loads(os.environ.get("CHAOS_NODES") or "{}")
DATA = Path(os.environ.get("CHAOS_DATA", "."))
HEAD = NODES.get("s0", "127.0.0.1")
LIBRARY: str = SETTINGS.get("library", "installed")


def index() -> int:
    """The number of this node: 1 on n1."""
    return int(NODE.removeprefix("n"))


def head_store(seconds: float = 300.0) -> dist.TCPStore:
    """A connection to the store of the head."""
    return dist.TCPStore(HEAD, PORT, is_master=False, wait_for_workers=False, timeout=timedelta(seconds=seconds))


def end_job(store: dist.Store, step: int, failed: str = "") -> None:
    """Tell the head how the job ended."""
    store.set(END, json.dumps({"step": step, "failed": failed}))


def as_fork(program: Callable[[], int]) -> int:
    """Run it in a child of this process, which has imported all it needs; returns its process id."""
    if pid := os.fork():
        return pid
    code = 1
    try:
        code = program()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(code)


def digest(values: Iterable[torch.Tensor | float | int]) -> str:
    """One digest of tensors and numbers, bit for bit."""
    found = hashlib.sha256()
    for value in values:
        tensor = value.detach() if isinstance(value, torch.Tensor) else torch.tensor(float(value), dtype=torch.float64)
        found.update(tensor.contiguous().numpy().tobytes())
    return found.hexdigest()[:16]
