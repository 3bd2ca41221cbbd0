"""What work on files takes, by kind: `python -m tests.bench.files FOLDER` prints the seconds of each as JSON,
by the clock and of the processor."""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

MIB = 1 << 20
BLOCK = 4096


def write(folder: Path) -> None:
    """64 MiB, one after the other."""
    block = bytes(MIB)
    with open(folder / "big", "wb", buffering=0) as file:
        for _ in range(64):
            file.write(block)


def read(folder: Path) -> None:
    """The same, from the kernel's cache."""
    with open(folder / "big", "rb", buffering=0) as file:
        while file.read(MIB):
            pass


def synced(folder: Path) -> None:
    """16 MiB, each 256 KiB synced."""
    block = bytes(MIB // 4)
    with open(folder / "synced", "wb", buffering=0) as file:
        for _ in range(64):
            file.write(block)
            os.fsync(file.fileno())


def scattered(folder: Path) -> None:
    """4096 writes of 4 KiB each, anywhere in 64 MiB."""
    block, places = bytes(BLOCK), random.Random(7)
    with open(folder / "big", "r+b", buffering=0) as file:
        for _ in range(4096):
            os.pwrite(file.fileno(), block, places.randrange(64 * MIB // BLOCK) * BLOCK)


def renamed(folder: Path) -> None:
    """1000 small files, each under another name first."""
    for number in range(1000):
        half = folder / "half"
        with open(half, "wb", buffering=0) as file:
            file.write(b"x")
        os.rename(half, folder / f"name-{number % 10}")


WORK: dict[str, Callable[[Path], None]] = {
    "write 64 MiB": write,
    "read 64 MiB": read,
    "write + fsync": synced,
    "random 4 KiB": scattered,
    "create + rename": renamed,
}


def main(folder: Path) -> None:
    """Each once."""
    folder.mkdir(parents=True, exist_ok=True)
    taken = {}
    for name, work in WORK.items():
        began, spent = time.perf_counter(), time.process_time()
        work(folder)
        taken[name] = time.perf_counter() - began, time.process_time() - spent
    print(json.dumps(taken), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
