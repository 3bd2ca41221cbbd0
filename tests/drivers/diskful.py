"""A program for `test_power.py`: open a target with a disk of its own and a member with a view of it, and wait."""

from __future__ import annotations

import sys
from pathlib import Path

import anyio

from chaos.api import Launch, Selector
from chaos.drivers.process import Process
from chaos.faults.storage.bit_rot import BitRot
from chaos.faults.storage.power_cut import PowerCut
from chaos.testing import Recorder


async def main(folder: Path) -> None:
    command = ["python", "-S", "-c", "import signal; signal.pause()"]
    spec = {
        "members": [{"name": "a", "role": "program", "node": "n-a", "command": command}],
        "nodes": [{"name": "n-a"}],
    }
    fault = PowerCut(members=Selector(nodes=("n-a",)), disk="disk")
    faults = (fault, BitRot(members=Selector(names=("a",)), path="nothing"))
    launch = Launch(spec=spec, settings={}, folder=folder, base=folder, points=(), faults=faults)
    async with Process().open(launch, Recorder()) as target:
        await target.wait_ready()
        print("mounted", flush=True)
        await target.wait_finished()


if __name__ == "__main__":
    Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
    anyio.run(main, Path(sys.argv[1]))
