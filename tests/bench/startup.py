"""How long the command line takes to say something: `--help`, `validate`, and `run` of an empty experiment."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

from . import peer
from .figures import Figure, median
from .place import Place, chaos, write
from .processes import BenchError, said, timed

PAIRS = 21
SECONDS = 15  # for the pairs of one call; a busy machine gets fewer of them
GOAL = 0.6


def measure(place: Place) -> Iterator[Figure]:
    """Wall time from start to exit, in interleaved pairs; console script against console script."""
    folder = place.scratch("startup")
    ours = write(place.scratch("startup/ours"), [], limits={"settle": "0s"})
    theirs = peer.experiment(place.scratch("startup/peer"))
    torch = "torch installed" if find_spec("torch") else "torch NOT installed"
    for what, mine, its in (
        ("--help", chaos("--help"), ("--help",)),
        ("validate", chaos("validate", str(ours)), ("validate", str(theirs))),
        ("run, empty", place.run(ours), ("run", str(theirs))),
        ("run, empty, --no-lab", place.run(ours, "--no-lab"), ("run", str(theirs))),
    ):
        command = place.peer.command(*its) if place.peer else None
        left, right = _pairs(mine, command, folder)
        if what.startswith("run"):
            _check_runs(ours.parent)
        note = f"median of {len(left)} pairs, {torch}"
        yield Figure(
            what=f"start-up: {what}", unit="ms", ours=median(left) * 1000,
            beside=median(right) * 1000 if right else None, against="peer", bound=GOAL, of_beside=True, note=note,
        )  # fmt: skip


def _pairs(ours: Sequence[str], theirs: Sequence[str] | None, folder: Path) -> tuple[list[float], list[float]]:
    left: list[float] = []
    right: list[float] = []
    deadline = time.monotonic() + SECONDS
    while len(left) <= PAIRS and (len(left) < 6 or time.monotonic() < deadline):
        left.append(timed(ours, folder=folder / "ours", codes=(0, 3)).seconds)  # 3: an empty run judges nothing
        if theirs is not None:
            right.append(timed(theirs, folder=folder / "peer").seconds)
    return left[1:], right[1:]  # the first pair warms the caches


def _check_runs(folder: Path) -> None:
    """A run that did not take place must not count as a fast one."""
    if not any(folder.glob("runs/*/journal.jsonl")):
        raise BenchError(f"no run took place: {said(folder)}")
