"""Toxiproxy servers in nodes of the lab, and the way to talk to one."""

from __future__ import annotations

import http.client
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

import chaos
from chaos.api import JSON
from chaos.drivers.process.fittings.wire import Wire
from chaos.drivers.process.recipe import Recipe
from chaos.drivers.process.supervisor import Started, Supervisor
from chaos.errors import NotLanded, Unsupported

START_WITHIN = 20.0  # seconds for an interpreter on a busy machine
CALL_WITHIN = 5.0
LOCAL = "127.0.0.1"


class Proxy:
    """What stands between one node and a link's port on another."""

    def __init__(self, server: Server, link: str, source: str, ports: tuple[int, ...]) -> None:
        self.server, self.link, self.source, self.ports = server, link, source, ports
        self.name = f"{link}.{source}.{server.node}"
        self.port = 0  # where it listens

    @property
    def about(self) -> JSON:
        return {"from": self.source, "to": self.server.node}

    async def create(self, address: str) -> None:
        """Have it listen on the node's own address; connections go on to where they were meant to go."""
        wanted = {"name": self.name, "listen": f"{address}:0", "upstream": "original:"}
        made = await self.server.call("POST", "/proxies", wanted)
        self.port = int(made["listen"].rpartition(":")[2])


class Server:
    """`python -m chaos.toxiproxy` in a node. It ends with the lab."""

    def __init__(self, node: str, wire: Wire, logs: Path) -> None:
        self.node = node
        self._wire = wire
        self._log = logs / f"streams-{node}.jsonl"  # of events, which it writes
        self._events: list[JSON] = []
        self._place = 0
        self._port = 0
        self._started: Started | None = None

    async def start(self, supervisor: Supervisor, recipe: Recipe, tasks: TaskGroup, seed: int) -> None:
        """Return once it answers; Unsupported with what it said when it does not."""
        reader, writer = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(reader, False)
        argv = [
            sys.executable, "-m", "chaos.toxiproxy", "--host", LOCAL, "--port", "0", "--seed", str(seed),
            "--events", str(self._log),
        ]  # fmt: skip
        home = str(Path(chaos.__file__).parents[1])
        env = {"PYTHONPATH": os.pathsep.join(filter(None, (home, os.environ.get("PYTHONPATH"))))}
        try:
            self._started = await supervisor.start(self.node, argv, env, str(recipe.folder), writer)
        finally:
            os.close(writer)
        said = b""
        with anyio.move_on_after(START_WITHIN):
            while b"\n" not in said:
                await anyio.wait_readable(reader)
                if not (chunk := os.read(reader, 4096)):
                    break
                said += chunk
        tasks.start_soon(_keep, reader, recipe.logs / f"toxiproxy-{self.node}.log", said)
        try:
            self._port = int(json.loads(said.partition(b"\n")[0])["listening"].rpartition(":")[2])
        except (ValueError, KeyError, TypeError) as error:
            raise Unsupported(f"the proxy on {self.node} did not start: {said.decode(errors='replace')}") from error

    def close(self) -> None:
        if self._started is not None:
            os.close(self._started.pidfd)
            self._started = None

    async def call(self, method: str, path: str, body: JSON | None = None) -> Any:
        """One call of the API; NotLanded when it is refused or nobody answers."""
        status, text = await self._ask(method, path, body)
        if status >= 400:
            raise NotLanded(
                f"the proxy on {self.node} refuses {method} {path}: {text.decode(errors='replace').strip()}"
            )
        return json.loads(text) if text else None

    async def gone(self, path: str) -> bool:
        """Delete it; False where it was not there any more."""
        status, text = await self._ask("DELETE", path, None)
        if status not in (204, 404):
            raise NotLanded(f"the proxy on {self.node} keeps {path}: {text.decode(errors='replace').strip()}")
        return status == 204

    @property
    def last(self) -> int:
        """The number of the last event."""
        self._read()
        return int(self._events[-1]["seq"]) if self._events else 0

    def events(self, since: int) -> list[JSON]:
        """What happened after that number."""
        self._read()
        place = len(self._events)
        while place and self._events[place - 1]["seq"] > since:
            place -= 1
        return self._events[place:]

    def _read(self) -> None:
        """Take in what was added to its log; a line is there once its end is."""
        with self._log.open("rb") as file:
            file.seek(self._place)
            whole, end, _ = file.read().rpartition(b"\n")
        self._place += len(whole) + len(end)
        self._events += [json.loads(line) for line in whole.splitlines()]

    async def _ask(self, method: str, path: str, body: JSON | None) -> tuple[int, bytes]:
        try:
            sock = await self._wire.connect(self.node, (LOCAL, self._port))
            sock.settimeout(CALL_WITHIN)
            with sock:
                return await to_thread.run_sync(ask, sock, method, path, body)
        except (OSError, http.client.HTTPException) as error:
            raise NotLanded(f"the proxy on {self.node} does not answer: {error}") from error


def ask(sock: Any, method: str, path: str, body: JSON | None) -> tuple[int, bytes]:
    """A call over a connected socket."""
    connection = http.client.HTTPConnection(LOCAL)
    connection.sock = sock
    text = None if body is None else json.dumps(body)
    connection.request(method, path, body=text, headers={"Connection": "close"})
    answer = connection.getresponse()
    return answer.status, answer.read()


async def _keep(reader: int, log: Path, said: bytes) -> None:
    """What it says goes to its log."""
    try:
        with log.open("ab", buffering=0) as file:
            file.write(said)
            while True:
                await anyio.wait_readable(reader)
                if not (chunk := os.read(reader, 1 << 16)):
                    return
                file.write(chunk)
    finally:
        os.close(reader)


def hits(events: Sequence[JSON], proxy: str, toxics: set[str], ours: Callable[[JSON], bool]) -> tuple[set[int], int]:
    """Connections of the target that these toxics hit, and bytes; those whose opening is `ours` do not count."""
    mine = [event for event in events if event.get("proxy") == proxy]
    spared = {event["connection"] for event in mine if ours(event)}
    total: dict[tuple[int, str], int] = {}
    for event in mine:
        if event["event"] in ("toxic.hit", "toxic.total") and event["toxic"] in toxics:
            key = event["connection"], event["toxic"]
            total[key] = max(total.get(key, 0), event["bytes"])
    met = {key: size for key, size in total.items() if key[0] not in spared}
    return {connection for connection, _ in met}, sum(met.values())
