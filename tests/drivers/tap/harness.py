"""A program for `test_unprivileged.py`: a member whose second mkdir fails."""

from __future__ import annotations

import errno
import sys
from pathlib import Path

import anyio

from chaos.api import Launch, Taps
from chaos.drivers.process import Process
from chaos.faults.storage.error import Error
from chaos.testing import Recorder

MEMBER = """
import os
from chaos import inside
data = os.environ["CHAOS_DATA"]
inside.hello("a", role="program")
inside.point("go")
os.mkdir(f"{data}/one")
seen = []
for name in "abc":
    try:
        os.mkdir(f"{data}/one/{name}")
        seen.append("made")
    except OSError as error:
        seen.append(str(error.errno))
print(*seen, flush=True)
inside.point("stay")
"""


async def main(lab: bool, folder: Path) -> None:
    fault = Error(path="one/*", ops=("mkdir",), nth=2, errno="ENOSPC")
    spec = {"members": [{"name": "a", "role": "program", "command": ["python", "-c", MEMBER]}], "stop-grace": "100ms"}
    base = Path(__file__).parents[3]
    launch = Launch(spec=spec, settings={}, folder=folder, base=base, points=("go", "stay"), lab=lab, faults=(fault,))
    stage = Recorder()
    stage.held = {"go": anyio.Event(), "stay": anyio.Event()}
    async with Process().open(launch, stage) as target:
        await target.wait_ready()
        assert isinstance(target, Taps)
        await stage.until("point.reached")
        tapped = await target.tap(fault.rule(), None)
        stage.held["go"].set()
        proof = await tapped.first(lambda: None)
        assert proof["errno"] == errno.errorcode[errno.ENOSPC]
        print(f"{proof['errno']} for the {proof['n']}nd {proof['op']} of {proof['path']}")
        await stage.until("point.reached", times=2)
        healed = await tapped.lift()
        print("a saw:", *(line for _, line in stage.lines))
        print("hits", healed["hits"], "of", healed["matched"])


if __name__ == "__main__":
    Path(sys.argv[2]).mkdir(parents=True, exist_ok=True)
    anyio.run(main, sys.argv[1] == "lab", Path(sys.argv[2]))
