"""Members of the small targets that are measured: `python -m tests.bench.members sleep|deaf|become|tick|train …`."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator

from chaos import inside


def sleep(seconds: float) -> None:
    """Be there, and do nothing."""
    inside.emit("member.ready")
    time.sleep(seconds)


def become(other: str, seconds: float) -> None:
    """After a while, be another member."""
    inside.emit("member.ready")
    time.sleep(seconds)
    inside.hello(other, role=other, node="n0")
    time.sleep(600)


def tick(count: int, period: float) -> None:
    """Emit `tick.happened` with a number at a fixed rate, then end."""
    inside.emit("member.ready")
    for n in _beat(count, period):
        inside.emit("tick.happened", n=n)
    time.sleep(0.2)  # what follows the last tick belongs to the run as well


def train(count: int, period: float, rank: int, world: int) -> None:
    """Report steps as a rank does that has nothing to compute."""
    inside.emit("member.ready")
    share = 12 // world
    for step in _beat(count, period):
        samples = [(step * 12 + rank + world * i) % 100_003 for i in range(share)]
        loss = repr(5.545177444479562 / step)
        inside.emit(
            "step.completed", step=step, rank=rank, world=world, epoch=1, loss=loss, samples=samples, data_epoch=0
        )


def _beat(count: int, period: float) -> Iterator[int]:
    """1 … count on an absolute schedule."""
    began = time.monotonic()
    for n in range(1, count + 1):
        time.sleep(max(0.0, began + n * period - time.monotonic()))
        yield n


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["deaf", seconds]:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            sleep(float(seconds))
        case ["sleep", seconds]:
            sleep(float(seconds))
        case ["become", other, seconds]:
            become(other, float(seconds))
        case ["tick", count, period]:
            tick(int(count), float(period))
        case ["train", count, period, rank, world]:
            train(int(count), float(period), int(rank), int(world))
        case other:
            sys.exit(f"no such member: {other}")
