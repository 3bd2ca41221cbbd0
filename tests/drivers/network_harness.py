"""A program for `test_unprivileged.py`: loss, rate and a toxic between two members, as whoever runs it."""

from __future__ import annotations

import sys
from pathlib import Path

import anyio

from chaos.api import Launch, Selection, Selector
from chaos.drivers.process import Process
from chaos.faults.network.latency import Latency
from chaos.faults.network.loss import Loss
from chaos.faults.network.rate import Rate
from chaos.testing import Recorder

MEMBER = "import signal; signal.pause()"
A, B = (Selector(nodes=(node,)) for node in ("n-a", "n-b"))
SIDES = [Selection(members=(), nodes=(node,)) for node in ("n-a", "n-b")]


async def main(folder: Path) -> None:
    members = [{"name": n, "role": n, "node": f"n-{n}", "command": ["python", "-S", "-c", MEMBER]} for n in ("a", "b")]
    spec = {
        "members": members, "nodes": [{"name": "n-a"}, {"name": "n-b"}], "stop-grace": "100ms",
        "links": {"ab": {"from": "a", "to": "b", "port": 7000}},
    }  # fmt: skip
    loss, rate = Loss(between=(A, B), loss=0.5), Rate(between=(A, B), rate=100_000)
    late = Latency(link="ab", members=A, latency=0.1)
    launch = Launch(spec=spec, settings={}, folder=folder, base=folder, points=(), faults=(loss, rate, late))
    async with Process().open(launch, Recorder()) as target:
        await target.wait_ready()
        for fault, hit in ((loss, SIDES), (rate, SIDES), (late, SIDES[:1])):
            async with fault.inject(target, *hit) as landing:  # type: ignore[arg-type]
                print(type(fault).__name__, bool(landing.evidence or landing.hit), flush=True)


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]))
