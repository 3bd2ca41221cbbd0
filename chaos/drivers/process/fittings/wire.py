"""What the wire between two nodes does, measured: both ends are sockets of the nodes, held by this one process."""

from __future__ import annotations

import math
import secrets
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import anyio

from chaos.drivers.process.supervisor import Supervisor

CHUNK = 1 << 16
BURST = 40  # datagrams at a time: more would overflow a receiver's buffer
QUIET = 0.02  # seconds without a datagram: what was sent has arrived or is lost


class Wire:
    """The nodes of a lab, for measurements between them."""

    def __init__(self, supervisor: Supervisor, addresses: dict[str, str]) -> None:
        self._supervisor = supervisor
        self._addresses = addresses

    @asynccontextmanager
    async def datagrams(self, source: str, target: str) -> AsyncIterator[tuple[socket.socket, socket.socket]]:
        """A sender on one node, connected to a receiver on the other."""
        sender = await self._supervisor.socket(source, socket.SOCK_DGRAM)
        with sender:
            receiver = await self._supervisor.socket(target, socket.SOCK_DGRAM)
            with receiver:
                receiver.bind((self._addresses[target], 0))
                sender.bind((self._addresses[source], 0))
                sender.connect(receiver.getsockname())
                yield sender, receiver

    @asynccontextmanager
    async def listener(self, node: str) -> AsyncIterator[socket.socket]:
        """A listening socket of the node, at a port of its own."""
        made = await self._supervisor.socket(node, socket.SOCK_STREAM)
        with made:
            made.bind((self._addresses[node], 0))
            made.listen()
            yield made

    async def connect(self, node: str, address: tuple[str, int], within: float = 3.0) -> socket.socket:
        """A connection from the node; OSError when it does not come about."""
        made = await self._supervisor.socket(node, socket.SOCK_STREAM)
        try:
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            made.bind((self._addresses[node], 0))
            with suppress(BlockingIOError):
                made.connect(address)
            with anyio.fail_after(within):
                await anyio.wait_writable(made)
            if error := made.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                raise OSError(error, f"no connection from {node} to {address}")
        except BaseException:
            made.close()
            raise
        return made

    async def arrivals(self, source: str, target: str, count: int) -> int:
        """How many of `count` datagrams arrive."""
        token, arrived = secrets.token_bytes(8), 0
        async with self.datagrams(source, target) as (sender, receiver):
            for first in range(0, count, BURST):
                for number in range(first, min(first + BURST, count)):
                    sender.send(token + number.to_bytes(4))
                while data := await _datagram(receiver, QUIET):
                    arrived += data.startswith(token)
        return arrived

    async def trip(self, source: str, target: str, within: float) -> float:
        """Seconds that a datagram takes; infinite when it does not arrive within that time."""
        async with self.datagrams(source, target) as (sender, receiver):
            began = time.monotonic()
            sender.send(secrets.token_bytes(8))
            return time.monotonic() - began if await _datagram(receiver, within) else math.inf

    async def rate(self, source: str, target: str, size: int, within: float) -> tuple[int, float]:
        """Send `size` bytes over a connection: how many arrive within that time, and the seconds it took."""
        async with self.listener(target) as listener:
            near = await self.connect(source, listener.getsockname())
            with near:
                await anyio.wait_readable(listener)
                far = listener.accept()[0]
                far.setblocking(False)
                with far:
                    return await flow(near, far, size, within)


async def flow(sender: socket.socket, receiver: socket.socket, size: int, within: float) -> tuple[int, float]:
    """How many of `size` bytes come through a connection within that time, and the seconds that took."""
    arrived, began = 0, time.monotonic()

    async def send() -> None:
        left, chunk = size, bytes(min(size, CHUNK))
        with suppress(OSError):
            while left:
                await anyio.wait_writable(sender)
                left -= sender.send(memoryview(chunk)[: min(left, CHUNK)])

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(send)
        with anyio.move_on_after(within), suppress(OSError):
            while arrived < size:
                await anyio.wait_readable(receiver)
                if not (data := receiver.recv(CHUNK)):
                    break
                arrived += len(data)
        seconds = time.monotonic() - began
        tasks.cancel_scope.cancel()
    return arrived, seconds


async def _datagram(receiver: socket.socket, within: float) -> bytes:
    with anyio.move_on_after(within):
        await anyio.wait_readable(receiver)
        return receiver.recv(64)
    return b""
