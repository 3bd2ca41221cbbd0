"""The fault file system beside the bare one, and power cuts of a disk."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio

from chaos.api import Fault, Launch, Selector
from chaos.drivers.process import Process
from chaos.drivers.process.fittings import disk, fuse
from chaos.faults.storage.bit_rot import BitRot
from chaos.faults.storage.power_cut import PowerCut
from chaos.storage import PoweredDisks
from chaos.testing import Recorder

from .figures import Figure, median
from .files import WORK
from .place import Place
from .processes import BenchError

ROUNDS = 5
CUTS = 20
WAYS: dict[str, tuple[Fault[Any], ...]] = {
    "bare": (),
    "view": (BitRot(members=Selector(names=("a",)), path="nothing"),),
}
SEQUENTIAL = "write 64 MiB"
SLOWEST = 2.5  # × bare: 0.4 of its speed


def measure(place: Place) -> Iterator[Figure]:
    """The same work in turn, bare and through a view that tells no lie; then one power cut after the other."""
    lab = "--no-lab" not in place.options
    if reason := fuse.missing(lab):
        raise BenchError(reason)
    taken: dict[str, dict[str, list[float]]] = {way: {work: [] for work in WORK} for way in WAYS}
    for number in range(ROUNDS):
        for way, faults in WAYS.items():
            folder = place.scratch(f"view-{way}-{number}")
            for work, (clock, _) in anyio.run(_work, folder, faults).items():
                taken[way][work].append(clock)
            shutil.rmtree(folder)
    for work in WORK:
        yield Figure(
            what=f"fault file system: {work}", unit="ms", ours=min(taken["view"][work]) * 1e3,
            beside=min(taken["bare"][work]) * 1e3, against="bare", bound=SLOWEST if work == SEQUENTIAL else None,
            of_beside=True, note=f"best of {ROUNDS}, in turn",
        )  # fmt: skip
    if reason := disk.missing(lab) or disk.attempt():
        raise BenchError(reason)
    cuts = anyio.run(_cut, place.scratch("cuts"))
    yield Figure(
        what="power cut: ext4 shut down and mounted again", unit="ms", ours=median(cuts) * 1e3, bound=30,
        note=f"median of {CUTS}; slowest {max(cuts) * 1e3:.0f}",
    )  # fmt: skip


async def _work(folder: Path, faults: tuple[Fault[Any], ...]) -> dict[str, tuple[float, float]]:
    stage = Recorder()
    command = ["python", "-m", "tests.bench.files", "${data}/work"]
    async with Process().open(_launch(folder, command, faults), stage) as target:
        await target.wait_ready()
        await target.wait_finished()
    if not stage.lines:
        raise BenchError("the work on files said nothing")
    found: dict[str, tuple[float, float]] = json.loads(stage.lines[-1][1])
    return found


async def _cut(folder: Path) -> list[float]:
    fault = PowerCut(members=Selector(names=("a",)), disk="disk", mechanism="fsshutdown")
    command = ["python", "-S", "-c", "import signal; signal.pause()"]
    seconds: list[float] = []
    async with Process().open(_launch(folder, command, (fault,)), Recorder()) as target:
        await target.wait_ready()
        assert isinstance(target, PoweredDisks)
        for number in range(CUTS):
            root: Path = target.data_root()  # type: ignore[attr-defined]
            (root / "disk" / f"unsynced-{number}").write_bytes(bytes(1 << 20))
            seconds.append((await target.lose_unsynced("disk"))["seconds"])
    return seconds


def _launch(folder: Path, command: list[str], faults: tuple[Fault[Any], ...]) -> Launch:
    spec = {"members": [{"name": "a", "role": "program", "command": command}], "stop-grace": "100ms"}
    return Launch(spec=spec, settings={}, folder=folder, base=Path(__file__).parents[2], points=(), faults=faults)
