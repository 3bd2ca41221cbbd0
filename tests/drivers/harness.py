"""A program for `test_leaks.py` and `test_unprivileged.py`: open a target, freeze a member, cut it off, wait."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import anyio

from chaos.api import Cut, Launch, Links, Signals
from chaos.drivers.process import Process
from chaos.testing import Recorder

# Each member has a child in a session of its own, which ignores what it can.
MEMBER = """
import os, signal, pathlib
if os.fork() == 0:
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.pause()
"""


async def main(lab: bool, folder: Path) -> None:
    members = [
        {"name": name, "role": "program", "node": f"n-{name}", "command": ["python", "-S", "-c", MEMBER]}
        for name in ("a", "b")
    ]
    spec = {"members": members, "nodes": [{"name": "n-a"}, {"name": "n-b"}], "stop-grace": "100ms"}
    launch = Launch(spec=spec, settings={}, folder=folder, base=folder, points=(), lab=lab)
    async with Process().open(launch, Recorder()) as target:
        await target.wait_ready()
        members_alive = target.members()
        assert isinstance(target, Signals)
        await target.signal(members_alive[0], signal.SIGSTOP)
        if isinstance(target, Links):
            await target.cut(Cut(pairs=(("n-a", "n-b"),)))
        (target.data_root() / "runs").touch()  # type: ignore[attr-defined]
        print("runs", len(members_alive), isinstance(target, Links), flush=True)
        if "--once" not in sys.argv:
            await target.wait_finished()


if __name__ == "__main__":
    Path(sys.argv[2]).mkdir(parents=True, exist_ok=True)
    anyio.run(main, sys.argv[1] == "lab", Path(sys.argv[2]))
