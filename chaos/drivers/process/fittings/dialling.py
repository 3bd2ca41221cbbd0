"""Calls to a service of the target, from where its clients are."""

from __future__ import annotations

import errno
import socket
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import anyio
from anyio.abc import TaskGroup

from chaos.api import JSON
from chaos.drivers.process.fittings.base import Face, Fitting
from chaos.drivers.process.fittings.wire import Wire
from chaos.drivers.process.supervisor import Supervisor
from chaos.errors import NotLanded, Unsupported
from chaos.talk import Dials, Line, NobodyThere

CHUNK = 1 << 16
SENDS_WITHIN = 10.0


class DiallingFace(Face):
    """Implements Dials."""

    def dial(self, link: str) -> AbstractAsyncContextManager[Line]:
        return self.fitting(DiallingFitting).dial(link)


class DiallingFitting(Fitting):
    """A socket of a client's node, held by the harness, for as long as the call lasts."""

    name = "dialling"
    capability = Dials
    face = DiallingFace

    def lab(self) -> JSON:
        if not self.recipe.launch.lab:
            raise Unsupported("services are called in the lab only: without it nodes have no network of their own")
        return {}

    async def set_up(self, supervisor: Supervisor, tasks: TaskGroup) -> str:
        self._wire = Wire(supervisor, self.recipe.addresses)
        return "sockets of the nodes"

    @asynccontextmanager
    async def dial(self, link: str) -> AsyncIterator[Line]:
        """See `chaos.talk.Dials`."""
        declared, slots = self.recipe.spec.links, self.recipe.spec.slots()
        if link not in declared:
            raise Unsupported(f"the target declares no link {link!r}, only {', '.join(declared) or 'none'}")
        found = declared[link]
        sources, targets = found.sources(slots), found.targets(slots)
        if not sources or not targets:
            raise NotLanded(f"link {link} has nobody at one of its ends")
        there = (self.recipe.addresses[targets[0]], found.ports[0])
        try:
            connection = await self._wire.connect(sources[0], there)
        except (OSError, TimeoutError) as error:
            kind = NobodyThere if error.errno == errno.ECONNREFUSED else NotLanded
            raise kind(f"the service of link {link} at {there[0]}:{there[1]} takes no call: {error}") from error
        with connection:
            yield _Call(connection, {"link": link, "from": sources[0], "to": f"{targets[0]}:{there[1]}"})


class _Call:
    """Implements Line."""

    def __init__(self, connection: socket.socket, about: JSON) -> None:
        self._connection, self._about = connection, about

    def about(self) -> JSON:
        return self._about

    async def send(self, data: bytes) -> None:
        rest = memoryview(data)
        with anyio.move_on_after(SENDS_WITHIN):
            while rest:
                await anyio.wait_writable(self._connection)
                try:
                    rest = rest[self._connection.send(rest) :]
                except BlockingIOError:
                    continue
                except ConnectionError as error:
                    raise NotLanded(f"{self._about['to']} has hung up: {error}") from error
        if rest:
            raise NotLanded(f"{self._about['to']} reads nothing")

    async def receive(self, within: float) -> bytes:
        with anyio.move_on_after(within):
            while True:
                await anyio.wait_readable(self._connection)
                try:
                    if data := self._connection.recv(CHUNK):
                        return data
                except BlockingIOError:
                    continue
                except ConnectionError as error:
                    raise NotLanded(f"{self._about['to']} has hung up: {error}") from error
                raise NotLanded(f"{self._about['to']} has hung up")
        raise NotLanded(f"{self._about['to']} gave no answer within {within:g} s")
