"""Reaching the upstream, without holding up anybody else."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Callable, Sequence

from chaos.toxiproxy.addresses import SO_MARK, Address, numeric, split
from chaos.toxiproxy.loop import OUT, Loop


class Dial:
    """One attempt, over all addresses of the upstream in turn. Calls `done` or `failed` once, unless cancelled."""

    def __init__(
        self,
        loop: Loop,
        *,
        mark: int,
        within: float,
        done: Callable[[socket.socket], None],
        failed: Callable[[str], None],
    ) -> None:
        self._loop = loop
        self._mark = mark
        self._done, self._failed = done, failed
        self._within = within
        self._sock: socket.socket | None = None
        self._rest: list[Address] = []
        self._lookup: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def start(self, upstream: str) -> None:
        if (known := numeric(upstream)) is not None:
            self.reach([known])
        else:
            self._timer = self._loop.call_later(self._within, self._late)
            self._lookup = self._loop.create_task(self._look_up(upstream))

    def reach(self, addresses: Sequence[Address]) -> None:
        self._rest = list(addresses)
        self._next("no address")

    def cancel(self) -> None:
        if self._lookup is not None:
            self._lookup.cancel()
        if self._timer is not None:
            self._timer.cancel()
        if self._sock is not None:
            self._loop.poller.forget(self._sock.fileno())
            self._sock.close()
            self._sock = None

    async def _look_up(self, upstream: str) -> None:
        try:
            host, port = split(upstream)
            found = await self._loop.getaddrinfo(host or "localhost", port, type=socket.SOCK_STREAM)
        except (ValueError, OSError) as error:
            return self._give_up(str(error))
        self._lookup = None
        addresses = [Address(entry[0], entry[4]) for entry in found]
        return self.reach(sorted(addresses, key=lambda address: address.family != socket.AF_INET))

    def _next(self, reason: str) -> None:
        """Try the next address; the last one's failure is the failure."""
        if not self._rest:
            return self._give_up(reason)
        address = self._rest.pop(0)
        try:
            self._sock = sock = socket.socket(address.family, socket.SOCK_STREAM)
            sock.setblocking(False)
            if self._mark:
                sock.setsockopt(socket.SOL_SOCKET, SO_MARK, self._mark)
            code = sock.connect_ex(address.at)
            if code == errno.EINPROGRESS:
                code = sock.connect_ex(address.at)  # on this machine it is already done
        except OSError as error:
            code = error.errno or errno.EINVAL
        if code in (errno.EINPROGRESS, errno.EALREADY):
            self._loop.poller.watch(sock.fileno(), OUT, self._ready)
            if self._timer is None:
                self._timer = self._loop.call_later(self._within, self._late)
            return None
        return self._settle(code)

    def _ready(self, mask: int) -> None:
        assert self._sock is not None
        code = self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        self._loop.poller.forget(self._sock.fileno())
        self._settle(code)

    def _settle(self, code: int) -> None:
        sock, self._sock = self._sock, None
        if sock is not None and code in (0, errno.EISCONN):
            self.cancel()
            return self._done(sock)
        if sock is not None:
            sock.close()
        return self._next(os.strerror(code).lower())

    def _late(self) -> None:
        self._give_up(f"no connection within {self._within:g}s")

    def _give_up(self, reason: str) -> None:
        self.cancel()
        self._failed(reason)
