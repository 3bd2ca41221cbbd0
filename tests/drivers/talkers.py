"""A program for `test_leaks.py`: two members in a conversation that is cut off; then wait, or end with `--once`."""

from __future__ import annotations

import sys
from pathlib import Path

import anyio

from chaos.api import Cut, Launch, Links
from chaos.drivers.process import Process
from chaos.testing import Recorder

LISTENER = """
import socket
with socket.create_server(("", 5000), family=socket.AF_INET6, dualstack_ipv6=True) as server:
    talker, _ = server.accept()
    while talker.recv(65536):
        talker.send(b"more")
"""
TALKER = """
import json, os, socket, time
talker = None
while talker is None:
    try:
        talker = socket.create_connection((json.loads(os.environ["CHAOS_NODES"])["n-a"], 5000))
    except ConnectionRefusedError:
        time.sleep(0.01)
print('{"kind": "talk.begun"}', flush=True)
while True:
    talker.send(bytes(65536))
"""


async def main(folder: Path) -> None:
    members = [
        {"name": name, "role": "program", "node": f"n-{name}", "command": ["python", "-S", "-c", program]}
        for name, program in (("a", LISTENER), ("b", TALKER))
    ]
    spec = {
        "members": members, "nodes": [{"name": "n-a"}, {"name": "n-b"}], "ready": {"event": "talk.begun"},
        "stop-grace": "100ms",
    }  # fmt: skip
    launch = Launch(spec=spec, settings={}, folder=folder, base=folder, points=(), lab=True)
    async with Process().open(launch, Recorder()) as target:
        await target.wait_ready()
        assert isinstance(target, Links)
        await target.cut(Cut(pairs=(("n-a", "n-b"), ("n-b", "n-a"))))
        print("cut", flush=True)
        if "--once" not in sys.argv:
            await target.wait_finished()


if __name__ == "__main__":
    Path(sys.argv[1]).mkdir()
    anyio.run(main, Path(sys.argv[1]))
