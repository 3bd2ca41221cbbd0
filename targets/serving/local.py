"""The stack alone, without the harness: `python -m targets.serving.local --set rate=50 --kill replica-1@5`.

Starts the store, the replicas, the router and the load on loopback addresses, prints every event as a line, and ends
everything when the load does. For a first look and for work on the stack; only the harness cuts networks.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from targets.serving.settings import Settings
from targets.trainer.local import Listener

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 60.0  # seconds until a member is ready, or has ended
OFTEN = ("request.", "attempt.", "router.usage", "replica.usage", "kv.")  # kinds that `--brief` leaves out
Heard = Callable[[dict[str, Any], str, dict[str, Any]], None]  # who (its hello), kind, data


class Stack:
    """The processes of one stack below one folder."""

    def __init__(self, folder: Path, settings: Settings, heard: Heard) -> None:
        self.folder, self._settings, self._heard = folder, settings, heard
        self.nodes = _addresses(settings.replicas)
        self._members: dict[str, subprocess.Popen[bytes]] = {}
        self._told: dict[str, threading.Event] = {}  # by kind of event
        self._listener = Listener(folder / "events.sock", self._on_event)

    def start(self, *, load: bool = True) -> None:
        """Start all members, as target.yaml does; the load waits for the router by itself."""
        if load:
            self.spawn("load", "c0", "load")
        self.spawn("store", "s0", "store", ready="store.ready")
        for i in range(self._settings.replicas):
            self.spawn(f"replica-{i}", f"r{i}", "replica")
        self.spawn("router", "gw", "router", ready="serving.ready")

    def spawn(self, member: str, node: str, role: str, *, ready: str | None = None) -> None:
        """Start one member; with `ready`, return when somebody says that."""
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
        told = self._told.setdefault(ready, threading.Event()) if ready else None
        with (self.folder / f"{member}.log").open("ab") as log:
            command = [sys.executable, "-m", f"targets.serving.{role}"]
            self._members[member] = subprocess.Popen(command, env=environment, cwd=ROOT, stdout=log, stderr=log)
        if told is not None and not told.wait(PATIENCE):
            raise TimeoutError(f"{member} did not become ready: {self.log(member)[-2000:]}")

    def log(self, member: str) -> str:
        """What a member wrote."""
        return (self.folder / f"{member}.log").read_text(errors="replace")

    def signal(self, member: str, number: signal.Signals) -> None:
        """Send a signal to a member that this stack started."""
        self._members[member].send_signal(number)

    def wait(self, member: str = "load") -> int:
        """Until a member exits, and with what."""
        return self._members[member].wait()

    def close(self) -> None:
        """SIGTERM, and SIGKILL three seconds later, to all that is left, the last one first."""
        running = [process for process in reversed(self._members.values()) if process.poll() is None]
        for process in running:
            process.send_signal(signal.SIGCONT)  # one that is stopped would not hear
            process.terminate()
        end = time.monotonic() + 3
        for process in running:
            try:
                process.wait(max(end - time.monotonic(), 0.01))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._listener.close()

    def _on_event(self, who: dict[str, Any], kind: str, data: dict[str, Any]) -> None:
        if told := self._told.get(kind):
            told.set()
        self._heard(who, kind, data)


def _addresses(replicas: int) -> dict[str, str]:
    """Loopback addresses that no other stack of this machine is likely to have."""
    network = f"127.{random.randrange(128, 255)}.{random.randrange(256)}"
    return {name: f"{network}.{i}" for i, name in enumerate(["s0", "gw", "c0", *(f"r{i}" for i in range(replicas))], 2)}


@contextlib.contextmanager
def stack(settings: Settings, heard: Heard) -> Iterator[Stack]:
    """A stack in a folder of its own; all its processes and files are gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="serving-", ignore_cleanup_errors=True) as folder:
        running = Stack(Path(folder), settings, heard)
        try:
            yield running
        finally:
            running.close()


class Printer:
    """Prints events; `hide` are beginnings of kinds that are left out."""

    def __init__(self, hide: Collection[str]) -> None:
        self._began, self._hide = time.monotonic(), tuple(hide)

    def __call__(self, who: dict[str, Any], kind: str, data: dict[str, Any]) -> None:
        if not kind.startswith(self._hide):
            seconds = time.monotonic() - self._began
            print(f"{seconds:7.3f} {who.get('member', '?'):10} {kind:20} {json.dumps(data)}", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one stack and print its events; the exit code is the load's."""
    parser = argparse.ArgumentParser(prog="python -m targets.serving.local", description=__doc__)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of the stack")
    parser.add_argument("--brief", action="store_true", help="leave out the events of single requests")
    for name, number in SIGNALS.items():
        help_ = f"send {number.name} to that member, so many seconds after the load began"
        parser.add_argument(f"--{name}", action="append", default=[], metavar="MEMBER@SECONDS", help=help_)
    options = parser.parse_args(arguments)
    chosen = dict(text.split("=", 1) for text in options.set)
    if unknown := sorted(set(chosen) - set(Settings.__struct_fields__)):
        parser.error(f"no such settings: {', '.join(unknown)}")
    settings = msgspec.convert(chosen, Settings, strict=False)
    printer = Printer(OFTEN if options.brief else ())

    def heard(who: dict[str, Any], kind: str, data: dict[str, Any]) -> None:
        printer(who, kind, data)
        if kind == "load.started":
            for name, number in SIGNALS.items():
                for text in getattr(options, name):
                    member, at = text.split("@")
                    timer = threading.Timer(float(at), running.signal, (member, number))
                    timer.daemon = True
                    timer.start()

    with stack(settings, heard) as running:
        running.start()
        return running.wait()


SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "resume": signal.SIGCONT, "term": signal.SIGTERM}

if __name__ == "__main__":
    sys.exit(main())
