"""A proxy beside a link's own, on a server that runs by itself: it leads to us, so that its toxics can be measured."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import anyio

from chaos.api import JSON
from chaos.drivers.process.fittings.probes import PROBES
from chaos.errors import NotLanded
from chaos.ways import Toxic

Call = Callable[[Callable[[], Any]], Awaitable[Any]]
CONNECT_WITHIN = 3.0
TRIES = 100  # connections of which one should be hit by a toxic of little toxicity


class Sibling:
    """From us through the server to us."""

    def __init__(self, call: Call, number: int) -> None:
        self.name = f"chaos-probe-{number}"
        self._call = call
        self._proxy: Any = None
        self._listener = socket.socket()

    @property
    def stands(self) -> bool:
        return self._proxy is not None

    async def open(self, api: Any, host: str, port: int) -> None:
        """Listen where the server can reach us, which is where our connections to it come from."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as towards:
            towards.connect((host, port))
            here = towards.getsockname()[0]
        self._listener.bind((here, 0))
        self._listener.listen()
        self._listener.setblocking(False)
        upstream = f"{here}:{self._listener.getsockname()[1]}"
        self._proxy = await self._call(lambda: api.create(upstream, self.name, listen=f"{host}:0"))

    async def add(self, name: str, stream: str, toxic: Toxic) -> None:
        await self._call(
            lambda: self._proxy.add_toxic(
                type=toxic.kind, name=name, stream=stream, toxicity=toxic.toxicity, attributes=dict(toxic.attributes)
            )
        )

    async def remove(self, name: str) -> None:
        if self._proxy is not None and name in await self._call(self._proxy.toxics):
            await self._call(lambda: self._proxy.destroy_toxic(name))

    async def measure(self, toxic: Toxic) -> list[JSON]:
        """For each stream: whether a connection fares as under the toxic, and what was seen."""
        found = []
        for stream in toxic.streams:
            affected, tries = False, 0
            while not affected and tries < (1 if toxic.toxicity >= 1 else TRIES):
                near, far = await self._connection()
                with near, far:
                    sender, receiver = (near, far) if stream == "upstream" else (far, near)
                    affected, seen = await PROBES[toxic.kind](sender, receiver, toxic.attributes)
                tries += 1
            found.append({"stream": stream, "seen": seen, "affected": affected})
        return found

    async def _connection(self) -> tuple[socket.socket, socket.socket]:
        host, _, port = self._proxy.listen.rpartition(":")
        near = socket.socket()
        try:
            near.setblocking(False)
            near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with suppress(BlockingIOError):
                near.connect((host, int(port)))
            with anyio.fail_after(CONNECT_WITHIN):
                await anyio.wait_readable(self._listener)
            far = self._listener.accept()[0]
        except (OSError, TimeoutError) as error:
            near.close()
            raise NotLanded(f"no connection through {self.name}: {error}") from error
        far.setblocking(False)
        return near, far

    async def close(self) -> None:
        if self._proxy is not None:
            await self._call(self._proxy.destroy)
            self._proxy = None
        self._listener.close()
