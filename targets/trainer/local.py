"""The trainer alone, without the harness: `python -m targets.trainer.local --steps 60 --kill-rank 1@30`.

Starts store, coordinators and agents on loopback addresses, prints every event as a line, and ends everything when the
job does. For a first look and for work on the trainer; only the harness cuts networks.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from targets.trainer.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
Heard = Callable[[dict[str, Any], str, dict[str, Any]], None]  # who (its hello), kind, data


class Listener:
    """The harness's end of `chaos.inside`, as far as it takes to hear: points are passed at once, no hook is armed."""

    def __init__(self, path: Path, heard: Heard) -> None:
        self.path = path
        self._heard, self._turn = heard, threading.Lock()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(str(path))
        self._socket.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Hear nothing more."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                stream, _ = self._socket.accept()
                threading.Thread(target=self._listen, args=(stream,), daemon=True).start()

    def _listen(self, stream: socket.socket) -> None:
        who: dict[str, Any] = {}
        with stream, stream.makefile("rb") as lines, contextlib.suppress(ConnectionError):
            for line in lines:
                message = json.loads(line)
                if message["k"] == "hooks":
                    stream.sendall(b'{"standing": []}\n')
                    continue
                if message["k"] == "hello":
                    who = message["d"]
                with self._turn:
                    self._heard(who, message["k"], message["d"])
                if message["k"] == "point":
                    stream.sendall(b"\n")


class Job:
    """The processes of one job below one folder."""

    def __init__(self, folder: Path, settings: Settings, heard: Heard) -> None:
        self._settings, self.folder = settings, folder
        self.nodes = _addresses(settings.nodes)
        self._members: dict[str, subprocess.Popen[bytes]] = {}
        self._ready: dict[str, threading.Event] = {}
        self._heard = heard
        self._listener = Listener(folder / "events.sock", self._on_event)

    def start(self, *, coordinators: bool = True) -> None:
        """Start the store, then the coordinators, then an agent a node."""
        last = self._settings.nodes - 1
        self.spawn("store", "s0", "store", await_ready=True)
        if coordinators:
            self.spawn("coordinator-0", f"n{last}", "coordinator", await_ready=True)
            self.spawn("coordinator-1", "n0", "coordinator", await_ready=True)
        for i in range(self._settings.nodes):
            self.spawn(f"agent-n{i}", f"n{i}", "agent")

    def spawn(self, member: str, node: str, role: str, *, await_ready: bool = False) -> None:
        """Start one member; with `await_ready` return when it says `ROLE.ready`."""
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "PYTHONUNBUFFERED": "1",
            "CHAOS_EVENTS": str(self._listener.path),
            "CHAOS_MEMBER": member,
            "CHAOS_NODE": node,
            "CHAOS_NODES": json.dumps(self.nodes),
            "CHAOS_ADDRESS": self.nodes[node],
            "CHAOS_SETTINGS": msgspec.json.encode(self._settings).decode(),
            "CHAOS_DATA": str(self.folder),
        }
        self._ready[member] = threading.Event()
        command = [sys.executable, "-m", f"targets.trainer.{role}"]
        self._members[member] = subprocess.Popen(command, env=environment, cwd=ROOT)
        if await_ready and not self._ready[member].wait(20):
            raise TimeoutError(f"{member} did not become ready")

    def wait(self) -> int:
        """Until a coordinator exits with the outcome of the job."""
        watched = [p for name, p in self._members.items() if name.startswith("coordinator")]
        while True:
            pid, status = os.waitpid(-1, 0)
            for process in self._members.values():
                if process.pid == pid:
                    process.returncode = os.waitstatus_to_exitcode(status)
                    if process in watched and process.returncode in (0, 1):
                        return process.returncode

    def kill(self, member: str) -> None:
        """SIGKILL a member that this job started."""
        self._members[member].kill()

    def close(self) -> None:
        """SIGTERM, and SIGKILL two seconds later, to all that is left."""
        running = [p for p in self._members.values() if p.poll() is None]
        for process in running:
            process.terminate()
        end = time.monotonic() + 2
        for process in running:
            try:
                process.wait(max(end - time.monotonic(), 0.01))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._listener.close()

    def _on_event(self, who: dict[str, Any], kind: str, data: dict[str, Any]) -> None:
        if kind.endswith(".ready"):
            self._ready[who["member"]].set()
        self._heard(who, kind, data)


def _addresses(nodes: int) -> dict[str, str]:
    """Loopback addresses that no other job of this machine is likely to have."""
    network = f"127.{random.randrange(128, 255)}.{random.randrange(256)}"
    return {name: f"{network}.{i}" for i, name in enumerate(["s0", *(f"n{i}" for i in range(nodes))], 2)}


@contextlib.contextmanager
def job(settings: Settings, heard: Heard) -> Iterator[Job]:
    """A job in a folder of its own; all its processes and files are gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="trainer-") as folder:
        running = Job(Path(folder), settings, heard)
        try:
            yield running
        finally:
            running.close()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one job and print its events; the exit code is the job's."""
    parser = argparse.ArgumentParser(prog="python -m targets.trainer.local", description=__doc__)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of the trainer")
    parser.add_argument("--kill-rank", metavar="RANK@STEP", help="kill that rank when it has completed that step")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--nodes", type=int, default=4)
    options = parser.parse_args(arguments)
    values = dict(text.split("=", 1) for text in options.set) | {"steps": options.steps, "nodes": options.nodes}
    settings = msgspec.convert(values, Settings, strict=False)
    rank, step = map(int, options.kill_rank.split("@")) if options.kill_rank else (-1, -1)
    began, killed = time.monotonic(), False

    def heard(who: dict[str, Any], kind: str, data: dict[str, Any]) -> None:
        nonlocal killed
        print(f"{time.monotonic() - began:7.3f} {who.get('member', '?'):14} {kind:24} {json.dumps(data)}", flush=True)
        if kind == "step.completed" and (data["rank"], data["step"]) == (rank, step) and not killed:
            killed = True
            os.kill(who["pid"], signal.SIGKILL)

    with job(settings, heard) as running:
        running.start()
        return running.wait()


if __name__ == "__main__":
    sys.exit(main())
