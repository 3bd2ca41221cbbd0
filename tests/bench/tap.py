"""The file tap: what it costs a member that is tapped for other things, and one whose every operation is seen."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio

from chaos.api import Fault, Launch
from chaos.drivers.process import Process
from chaos.faults.storage.error import Error
from chaos.testing import Recorder

from .figures import Figure
from .files import WORK
from .place import Place
from .processes import BenchError

ROUNDS = 7
WAYS: dict[str, tuple[Fault[Any], ...]] = {
    "bare": (),
    "idle": (Error(path="nothing", ops=("link",)),),
    "seen": (Error(path="nothing", ops=("create", "read", "write", "fsync", "rename")),),
}
CALLS = {"write 64 MiB": 64, "read 64 MiB": 65, "write + fsync": 128, "random 4 KiB": 4096, "create + rename": 3000}


def measure(place: Place) -> Iterator[Figure]:
    """The same work in turn: bare, with a filter that nothing gets into, and with every operation asked about."""
    lab = "--no-lab" not in place.options
    taken: dict[str, dict[str, list[tuple[float, float]]]] = {way: {work: [] for work in WORK} for way in WAYS}
    for number in range(ROUNDS):
        for way, faults in WAYS.items():
            folder = place.scratch(f"tap-{way}-{number}")
            for work, seconds in anyio.run(_once, folder, faults, lab).items():
                taken[way][work].append(seconds)
            shutil.rmtree(folder)
    for work in WORK:
        # A filter that nothing gets into costs the member's own time, which other load does not touch as much.
        idle, bare = (min(spent for _, spent in taken[way][work]) for way in ("idle", "bare"))
        yield Figure(
            what=f"file tap, idle: {work}", unit="cpu ms", ours=idle * 1e3, beside=bare * 1e3,
            against="bare", bound=1.2, of_beside=True, note=f"best of {ROUNDS}, in turn",
        )  # fmt: skip
    for work in WORK:
        seen, bare = (min(clock for clock, _ in taken[way][work]) for way in ("seen", "bare"))
        yield Figure(
            what=f"file tap, every call seen: {work}", unit="ms", ours=seen * 1e3, beside=bare * 1e3, against="bare",
            note=f"{(seen - bare) / CALLS[work] * 1e6:.0f} µs a call",
        )  # fmt: skip


async def _once(folder: Path, faults: tuple[Fault[Any], ...], lab: bool) -> dict[str, tuple[float, float]]:
    stage = Recorder()
    command = ["python", "-m", "tests.bench.files", "${data}/work"]
    spec = {"members": [{"name": "a", "role": "program", "command": command}], "stop-grace": "100ms"}
    launch = Launch(
        spec=spec, settings={}, folder=folder, base=Path(__file__).parents[2], points=(), lab=lab, faults=faults
    )
    async with Process().open(launch, stage) as target:
        await target.wait_ready()
        await target.wait_finished()
    if not stage.lines:
        raise BenchError("the work on files said nothing")
    return {work: (clock, spent) for work, (clock, spent) in json.loads(stage.lines[-1][1]).items()}
