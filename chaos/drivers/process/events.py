"""What members say: events and failpoints over a Unix socket (`chaos/inside.py` is the other end), and log lines."""

from __future__ import annotations

import json
import math
import os
import socket
import struct
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import anyio
import msgspec
from anyio.abc import SocketAttribute, SocketStream

from chaos.api import JSON
from chaos.drivers.process.hooks import Channel

EVENT_LIMIT = 1 << 20  # bytes of one event
LINE_LIMIT = 1 << 16  # bytes of one log line that is looked at; the file holds all of it
MALFORMED_LIMIT = 20  # of one connection or log; a flood of rubbish is told once
SO_PEERPIDFD = 77


class Message(msgspec.Struct, frozen=True):
    """One line of the protocol."""

    k: str
    d: dict[str, Any] = {}
    t: float | None = None
    name: str = ""


class Sink(Protocol):
    """Who takes what members say."""

    def hello(self, data: JSON, pid: int, pidfd: int, t: float | None) -> str:
        """A process says who it is; its source name. The sink owns `pidfd` from here on."""

    def event(self, source: str, kind: str, data: JSON, t: float | None) -> None:
        """A fact."""

    async def at_point(self, source: str, point: str, data: JSON) -> None:
        """Returns when the member may go on."""

    async def hooked(self, pid: int, channel: Channel) -> None:
        """A process listens for hooks, and waits to hear of those that stand."""

    def hook_said(self, channel: Channel, kind: str, data: JSON, t: float | None) -> None:
        """It obeyed (`armed`, `disarmed`, `refused`), or a hook hit (`hit`)."""

    def unhooked(self, pid: int) -> None:
        """It listens no more."""

    def opened(self, pid: int) -> None:
        """A process has connected."""

    def closed(self, pid: int) -> None:
        """All that it sent over one connection has been handed over."""


class Lines:
    """Cuts a stream of bytes into lines; keeps at most `limit` bytes of a line and drops the rest of it."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rest = b""
        self._skipping = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that end in this chunk."""
        *lines, rest = chunk.split(b"\n")
        found: list[bytes] = []
        for line in lines:
            if not self._skipping:
                found.append((self._rest + line)[: self._limit])
            self._rest, self._skipping = b"", False
        if not self._skipping:
            self._rest += rest
            if len(self._rest) > self._limit:
                found.append(self._rest[: self._limit])
                self._rest, self._skipping = b"", True
        return found


async def serve_connection(stream: SocketStream, sink: Sink) -> None:
    """Read one member's connection to its end. Reading goes on while it stands at a failpoint: other threads emit."""
    pid, pidfd = _peer(stream.extra(SocketAttribute.raw_socket))
    talk = _Talk(stream, sink, pid, pidfd)
    sink.opened(pid)
    try:
        async with stream, anyio.create_task_group() as points:
            lines = Lines(EVENT_LIMIT)
            while True:
                try:
                    chunk = await stream.receive()
                except (anyio.EndOfStream, anyio.BrokenResourceError):
                    break
                for line in lines.feed(chunk):
                    message = talk.take(line)
                    if message is not None and message.k == "hooks":
                        await talk.hook(message)
                    elif message is not None:
                        points.start_soon(talk.stand, message)
            points.cancel_scope.cancel()  # nobody waits there any more
    finally:
        if talk.channel is not None:
            sink.unhooked(pid)
        sink.closed(pid)
        if talk.pidfd >= 0:
            os.close(talk.pidfd)


class _Talk:
    """One connection: who speaks, and how much of it was rubbish."""

    def __init__(self, stream: SocketStream, sink: Sink, pid: int, pidfd: int) -> None:
        self.stream = stream
        self.sink = sink
        self.pid = pid
        self.pidfd = pidfd
        self.source = f"pid-{pid}"
        self.malformed = 0
        self.channel: Channel | None = None  # once the process listens for hooks on this connection

    def take(self, line: bytes) -> Message | None:
        """Hand one line over; given back is what the member waits for an answer to: a failpoint, its hooks."""
        try:
            message = decode(line)
        except (ValueError, msgspec.MsgspecError) as error:
            self.malformed += 1
            if self.malformed <= MALFORMED_LIMIT:
                text = line[:200].decode(errors="replace")
                self.sink.event(self.source, "target.malformed", {"line": text, "reason": str(error)}, None)
            return None
        if message.k == "hello":
            pidfd, self.pidfd = self.pidfd, -1
            self.source = self.sink.hello(message.d, self.pid, pidfd, message.t)
        elif message.k in ("point", "hooks"):
            return message
        elif self.channel is not None:
            self.sink.hook_said(self.channel, message.k, message.d, message.t)
        else:
            self.sink.event(self.source, message.k, message.d, message.t)
        return None

    async def hook(self, message: Message) -> None:
        self.channel = Channel(self.stream, str(message.d.get("member")), message.d.get("sites") or ())
        await self.sink.hooked(self.pid, self.channel)

    async def stand(self, message: Message) -> None:
        await self.sink.at_point(self.source, message.name, message.d)
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # it may have gone meanwhile
            await self.stream.send(b"\n")


def decode(line: bytes) -> Message:
    """One line; numbers that JSON has no word for (a loss of NaN is a fact, too) become words."""
    try:
        message = msgspec.json.decode(line, type=Message)
    except msgspec.DecodeError:
        message = msgspec.convert(json.loads(line, parse_constant=str), Message)
    if not message.k or (message.k == "point" and not message.name):
        raise ValueError("an event needs a kind, a failpoint a name")
    if message.t is not None and not (math.isfinite(message.t) and message.t <= time.monotonic() + 1):
        raise ValueError(f"t is no reading of this machine's monotonic clock: {message.t}")
    return message


async def follow(reader: int, member: str, log: Path, sink: Any) -> None:
    """Copy what a member prints into its log and hand its lines over, until nobody holds the other end.

    The member is never made to wait for a full disk: what cannot be written is told once and dropped.
    """
    lines, lost = Lines(LINE_LIMIT), False
    with log.open("ab", buffering=0) as file:
        while True:
            await anyio.wait_readable(reader)
            chunk = os.read(reader, 1 << 16)
            if not chunk:
                return
            if not lost:
                try:
                    file.write(chunk)
                except OSError as error:
                    lost = True
                    sink.event(member, "target.log_lost", {"log": log.name, "reason": str(error)}, None)
            for line in lines.feed(chunk):
                take_line(line, member, sink)


def take_line(line: bytes, member: str, sink: Any) -> None:
    """A printed line; a JSON object with a `kind` is an event, too."""
    if line.startswith(b"{") and b'"kind"' in line:
        try:
            data = json.loads(line, parse_constant=str)
        except ValueError:
            data = {}
        kind = data.pop("kind", None)
        if isinstance(kind, str) and kind:
            sink.event(member, kind, data, None)
    sink.log_line(member, line.decode(errors="replace"))


def _peer(connection: Any) -> tuple[int, int]:
    """The process at the other end, as we see it, and a file descriptor that means it (-1 once it has gone)."""
    size = struct.calcsize("3i")
    pid = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))[0]
    try:
        return pid, connection.getsockopt(socket.SOL_SOCKET, SO_PEERPIDFD)
    except OSError:  # before Linux 6.5
        try:
            return pid, os.pidfd_open(pid)
        except ProcessLookupError:
            return pid, -1
