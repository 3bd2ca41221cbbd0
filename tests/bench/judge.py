"""How fast a recorded run is read and judged, by its length."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from .figures import Figure
from .place import ROOT, Place
from .processes import SAID, python, timed

LENGTHS = (10_000, 100_000, 1_000_000)
LINEAR = 1.5  # of the time an event takes at a tenth of the length: caches and pages have their share in it


def measure(place: Place) -> Iterator[Figure]:
    """Events a second of processor time for reading and judging by all invariants, and the memory that takes."""
    folder = place.scratch("judge")
    taken = [_judge(folder, length) for length in LENGTHS]
    for facts in taken:
        count = facts["events"]
        yield Figure(
            what=f"judge: {count:,} events, read and judge", unit="/s", ours=count / facts["judge"],
            note=f"{facts['checks']} checks, {_others(facts)}; read alone {count / facts['read']:,.0f}/s; "
            f"{facts['bytes'] / count:.0f} B an event",
        )  # fmt: skip
        yield Figure(what=f"judge: {count:,} events, peak memory", unit="MiB", ours=facts["peak"])
    for shorter, longer in pairwise(taken):
        yield Figure(
            what=f"judge: time an event at {longer['events']:,}", unit="µs", ours=_each(longer), beside=_each(shorter),
            against=f"at {shorter['events']:,}", bound=LINEAR, of_beside=True,
        )  # fmt: skip


def _judge(folder: Path, length: int) -> dict[str, Any]:
    call = python("-m", "tests.bench.judging", str(folder), str(length))
    timed(call, folder=folder, within=120, env={"PYTHONPATH": str(ROOT)})
    facts: dict[str, Any] = json.loads((folder / SAID).read_bytes())
    return facts


def _each(facts: dict[str, Any]) -> float:
    return float(facts["judge"] / facts["events"] * 1e6)


def _others(facts: dict[str, Any]) -> str:
    others = facts["others"]
    return "all pass" if not others else f"{len(others)} no pass: {others[0]}"
