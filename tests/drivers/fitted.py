"""A program for `test_leaks.py`: open a target that is fitted for a fault, have the fault stand, wait.

It says `refused` with the reason where this machine cannot do it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import anyio

from chaos.api import Fault, Launch, Selector, capability_of
from chaos.drivers.process import Process
from chaos.faults.clock.jump import Jump
from chaos.faults.compute.straggler import Straggler
from chaos.faults.network.latency import Latency
from chaos.faults.network.loss import Loss
from chaos.faults.network.rate import Rate
from chaos.faults.process.cgroup_freeze import CgroupFreeze
from chaos.faults.storage.power_cut import PowerCut
from chaos.faults.storage.slow import Slow
from chaos.faults.storage.stale_metadata import StaleMetadata
from chaos.runner.method import refusals
from chaos.selection import select
from chaos.testing import Recorder

B = Selector(names=("b",))
BETWEEN = (Selector(nodes=("n-a",)), Selector(nodes=("n-b",)))
FAULTS: dict[str, Fault[Any]] = {
    "tap": Slow(members=B, path="*", delay=30.0),
    "disk": PowerCut(members=B, disk="b"),
    "fuse": StaleMetadata(members=B),
    "groups": CgroupFreeze(members=B),
    "streams": Latency(link="talk", members=B, latency=0.1),
    "loss": Loss(between=BETWEEN, loss=0.2),
    "rate": Rate(between=BETWEEN, rate=1_000_000),
    "clock": Jump(members=B, by=3600.0),
    "duty-cycle": Straggler(members=B, by="duty-cycle"),
}
MEMBER = """
import os, socket, time
from pathlib import Path
from chaos import inside
me = os.environ["CHAOS_MEMBER"]
inside.hello(me, role=me)
own = Path(os.environ["CHAOS_DATA"], me)
own.mkdir(exist_ok=True)
server = socket.create_server((os.environ["CHAOS_ADDRESS"], 7100)) if me == "a" else None
(own / "file").write_text("first")  # a power cut of a folder in which nothing lies does not land
inside.emit("it.runs")
while True:
    (own / "file").write_text(str(time.time()))
    time.sleep(0.01)
"""


async def main(name: str, folder: Path) -> None:
    fault = FAULTS[name]
    members = [{"name": n, "role": n, "node": f"n-{n}", "command": ["python", "-c", MEMBER]} for n in "ab"]
    spec = {
        "members": members, "nodes": [{"name": "n-a"}, {"name": "n-b"}], "stop-grace": "100ms",
        "links": {"talk": {"from": "b", "to": "a", "port": 7100}},
    }  # fmt: skip
    launch = Launch(spec=spec, settings={}, folder=folder, base=folder, points=(), faults=(fault,))
    stage = Recorder()
    async with Process().open(launch, stage) as target:
        await target.wait_ready()
        for member in "ab":
            await stage.until("it.runs", member)
        need: Any = capability_of(type(fault))
        if not isinstance(target, need):
            print("refused", *refusals(target), flush=True)
            return
        hit = select(fault.selectors(), (), target.members(), ("n-a", "n-b"))
        async with fault.inject(target, *hit):
            print("stands", flush=True)
            await anyio.sleep_forever()


if __name__ == "__main__":
    Path(sys.argv[2]).mkdir(parents=True, exist_ok=True)
    anyio.run(main, sys.argv[1], Path(sys.argv[2]))
