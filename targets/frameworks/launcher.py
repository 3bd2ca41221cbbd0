"""A launcher such as batch systems have: it starts the ranks of a job, and all of them again when one dies.

The libraries are imported once, here, and the ranks are forked: nothing of a library has run in this process yet, so
no thread of it is missing in a child, and a restart costs no second import.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from chaos.inside import emit, hello

DATA = Path(os.environ.get("CHAOS_DATA", "."))
SETTINGS: Mapping[str, Any] = json.loads(os.environ.get("CHAOS_SETTINGS", "{}"))


class Place(NamedTuple):
    """Where a process stands: its rank, and the incarnation of the group."""

    rank: int
    world: int
    epoch: int


def launch(work: Callable[[Place], None], *, worlds: Sequence[int] = (1,), restarts: int = 2) -> NoReturn:
    """Run `work` on each rank until all of them end well; exits with 1 after `restarts` that did not help.

    `worlds`: how many ranks the first, the second, … incarnation has; the last number holds for all later ones.
    """
    reason: str | None = None
    for epoch in range(1, restarts + 2):
        world = worlds[min(epoch, len(worlds)) - 1]
        emit("group.forming", epoch=epoch, world=world, reason="restart" if epoch > 1 else "start")
        port = _free_port()
        ranks = {_start(work, Place(rank, world, epoch), port): rank for rank in range(world)}
        reason = _wait(ranks)
        if reason is None:
            _leave(0)
    emit("job.failed", reason=f"{reason}, in spite of {restarts} restarts" if restarts else reason)
    _leave(1)


def _start(work: Callable[[Place], None], place: Place, port: int) -> int:
    sys.stdout.flush()
    sys.stderr.flush()
    if pid := os.fork():
        return pid
    code = 1
    try:
        hello(f"rank-{place.rank}", role="rank", rank=place.rank)
        os.environ |= {} if place.world == 1 else {
            "RANK": str(place.rank), "LOCAL_RANK": str(place.rank), "WORLD_SIZE": str(place.world),
            "LOCAL_WORLD_SIZE": str(place.world), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
        }  # fmt: skip
        work(place)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        _leave(code)


def _leave(code: int) -> NoReturn:
    """End at once: libraries leave threads and handlers behind, and take seconds to take themselves down."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _wait(ranks: dict[int, int]) -> str | None:
    """Wait for all ranks; when one dies, declare it, end the others, and say why."""
    while ranks:
        pid, status = os.wait()
        rank = ranks.pop(pid, None)
        code = os.waitstatus_to_exitcode(status)
        if rank is None or code == 0:
            continue
        reason = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        emit("failure.detected", member=f"rank-{rank}", reason=reason, **{"class": "fail-stop"})
        for other in ranks:
            os.kill(other, signal.SIGKILL)
        for other in ranks:
            os.waitpid(other, 0)
        return f"rank {rank} ended with {reason}"
    return None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# --- facts -----------------------------------------------------------------------------------------------------------


def file_facts(path: Path) -> dict[str, Any]:
    """Length and digest of what a file holds now."""
    held = path.read_bytes()
    return {"bytes": len(held), "digest": hashlib.sha256(held).hexdigest()}


def digest(value: Any) -> str:
    """Of a state: tensors by their bytes, everything else by what it is; dictionaries in order of their keys."""
    found = hashlib.sha256()
    _feed(found, value)
    return found.hexdigest()[:16]


def _feed(found: Any, value: Any) -> None:
    if isinstance(value, Mapping):
        for key in sorted(value, key=str):
            found.update(f"{key}:".encode())
            _feed(found, value[key])
    elif isinstance(value, (list, tuple)):
        for item in value:
            _feed(found, item)
    elif hasattr(value, "detach"):
        tensor = value.detach().cpu().contiguous()
        found.update(f"{tensor.dtype}{tuple(tensor.shape)}".encode() + tensor.numpy().tobytes())
    else:
        found.update(repr(value).encode())
