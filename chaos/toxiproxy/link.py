"""One direction of a connection: read, through the stages, write."""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from typing import Protocol

from chaos.toxiproxy.loop import IN, OUT, TROUBLE, Loop
from chaos.toxiproxy.toxic import End, Receiver, Stage

BULK = 256 * 1024  # bytes read at once where nothing is in the way
CHUNK = 32 * 1024  # and where toxics are: their unit, as in the original
HIGH = 256 * 1024  # bytes that wait to be written before no more is read

_buffer = bytearray(BULK)  # of all links: what was read is written or copied before anything else is read
_view = memoryview(_buffer)


class Owner(Protocol):
    """The connection, as its links see it."""

    def blame(self, stage: Stage) -> None: ...

    def hit(self, stage: Stage) -> None: ...

    def ended(self, link: Link, end: End) -> None:
        """All that this direction had to say has been written."""

    def broken(self, port: Port, error: OSError) -> None:
        """A socket failed."""


class Port:
    """A socket of a connection: the source of one link, and where the other one writes."""

    __slots__ = ("_loop", "_mask", "fd", "reader", "sock", "writer")

    def __init__(self, sock: socket.socket, loop: Loop) -> None:
        self.sock = sock
        self.fd = sock.fileno()
        self._loop = loop
        self._mask = -1  # not watched
        self.reader: Link
        self.writer: Link

    def want(self, more: int, less: int = 0) -> None:
        """Be told when the socket is ready for these as well, and for those no longer."""
        mask = (max(self._mask, 0) | more) & ~less
        if self._mask < 0:
            self._loop.poller.watch(self.fd, mask, self.ready)
        elif mask != self._mask:
            self._loop.poller.change(self.fd, mask)
        self._mask = mask

    def ready(self, mask: int) -> None:
        if mask == IN:
            return self.reader.readable()
        if mask & TROUBLE and not self._mask & IN:
            return self._trouble()
        if mask & OUT:
            self.writer.writable()
        if mask & ~OUT and self._mask > 0 and self._mask & IN:
            self.reader.readable()
        return None

    def _trouble(self) -> None:
        """An error while nobody reads. Both ends having said all is none, but would be told for ever."""
        if code := self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self.reader.owner.broken(self, OSError(code, "reset"))
        else:
            self.forget()

    def forget(self) -> None:
        if self._mask >= 0:
            self._loop.poller.forget(self.fd)
            self._mask = -1


class Link:
    """One direction of a connection. At its end it is a receiver itself: what arrives there is written."""

    __slots__ = (
        "_held", "_over", "_pending", "_recv", "_send", "_waiting", "closed", "finished",
        "loop", "owner", "received", "sent", "sink", "source", "stages", "upstream",
    )  # fmt: skip

    def __init__(self, owner: Owner, source: Port, sink: Port, *, upstream: bool, loop: Loop) -> None:
        self.owner = owner
        self.loop: asyncio.AbstractEventLoop = loop
        self.source, self.sink, self.upstream = source, sink, upstream
        source.reader = sink.writer = self
        self._recv, self._send = source.sock.recv_into, sink.sock.send
        self.stages: list[Stage] = []
        self._pending: deque[memoryview] = deque()
        self._waiting = 0  # bytes in it
        self._held = False  # no longer reading, for want of room
        self._over: End | None = None  # has arrived here; written once nothing is pending
        self.finished = False  # its end has been written
        self.closed = False
        self.received = self.sent = 0

    # --- the source --------------------------------------------------------------------------------------------------

    def readable(self) -> None:
        direct = not self.stages
        if not direct and not self._free():
            return self._hold()
        try:
            size = self._recv(_buffer, BULK if direct else CHUNK)
        except BlockingIOError:
            return None
        except OSError as error:
            return self.owner.broken(self.source, error)
        if not size:
            return self._end_of_source()
        self.received += size
        if not direct:
            self.stages[0].feed(bytes(_view[:size]))
        elif self._pending:
            self.feed(bytes(_view[:size]))
        else:
            self._write(_view[:size])
        if self._waiting > HIGH and not self.closed:
            self._hold()
        return None

    def _end_of_source(self) -> None:
        self.source.want(0, IN)
        (self.stages[0] if self.stages else self).finish(End.EOF)

    def _free(self) -> bool:
        return all(stage.free() for stage in self.stages)

    def _hold(self) -> None:
        self._held = True
        self.source.want(0, IN)
        for stage in self.stages:
            if not stage.free():
                stage.knock()

    def wake(self) -> None:
        """There may be room again: read on."""
        if self._held and not self.closed and self._waiting <= HIGH and self._free():
            self._held = False
            self.source.want(IN)

    # --- the stages --------------------------------------------------------------------------------------------------

    def insert(self, place: int, stage: Stage) -> None:
        stage.next = self._after(place)
        if place:
            self.stages[place - 1].next = stage
        self.stages.insert(place, stage)
        stage.start()

    def remove(self, stage: Stage) -> None:
        """Take it out, with what it holds passed on. Nothing here waits."""
        place = self.stages.index(stage)
        del self.stages[place]
        if place:
            self.stages[place - 1].next = self._after(place)
        stage.leave()
        self.wake()

    def _after(self, place: int) -> Receiver:
        return self.stages[place] if place < len(self.stages) else self

    def hit(self, stage: Stage) -> None:
        self.owner.hit(stage)

    def blame(self, stage: Stage) -> None:
        self.owner.blame(stage)

    # --- the sink ----------------------------------------------------------------------------------------------------

    def feed(self, data: bytes) -> None:
        if self.closed or self._over is not None:
            return
        if self._pending:
            self._pending.append(memoryview(data))
            self._waiting += len(data)
        else:
            self._write(memoryview(data))

    def _write(self, view: memoryview) -> None:
        try:
            size = self._send(view)
        except BlockingIOError:
            size = 0
        except OSError as error:
            return self.owner.broken(self.sink, error)
        self.sent += size
        if size < len(view):
            self._pending.append(memoryview(bytes(view[size:])))
            self._waiting += len(view) - size
            self.sink.want(OUT)
        return None

    def writable(self) -> None:
        while self._pending:
            view = self._pending[0]
            try:
                size = self._send(view)
            except BlockingIOError:
                return None
            except OSError as error:
                return self.owner.broken(self.sink, error)
            self.sent += size
            self._waiting -= size
            if size < len(view):
                self._pending[0] = view[size:]
                return None
            self._pending.popleft()
        self.sink.want(0, OUT)
        if self._over is not None:
            return self._finish_now()
        return self.wake()

    def finish(self, end: End) -> None:
        if self.closed or self._over is not None:
            return
        self._over = end
        if end is not End.EOF:
            self.source.want(0, IN)
        if not self._pending or end is End.RESET:
            self._finish_now()

    def _finish_now(self) -> None:
        assert self._over is not None
        if self._over is End.EOF:
            try:
                self.sink.sock.shutdown(socket.SHUT_WR)
            except OSError as error:
                return self.owner.broken(self.sink, error)
        self.finished = True
        return self.owner.ended(self, self._over)

    def close(self) -> None:
        """The connection is closing: drop what is held."""
        self.closed = True
        for stage in self.stages:
            stage.stop()
        self._pending.clear()
        self.stages.clear()


def discard(sock: socket.socket) -> None:
    """Read what has come and throw it away: closing a socket with unread data would send RST."""
    for _ in range(4):  # not more: a flood must not hold up the close of others
        try:
            if not sock.recv_into(_buffer):
                return
        except OSError:
            return
