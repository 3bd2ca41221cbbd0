"""Frames over TCP, and the blocking side of them: `Line` (a connection) and `Caller` (request and reply, retried).

A frame is a 4-byte big-endian length, a JSON object of that length, and `body` raw bytes where the object says so.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import random
import socket
import struct
import threading
import time
from dataclasses import dataclass
from typing import Any

from targets.trainer.settings import Address

LENGTH = struct.Struct(">I")
MAX_HEADER = 1 << 20
MAX_BODY = 1 << 31


@dataclass(frozen=True, slots=True)
class Frame:
    """One message."""

    header: dict[str, Any]
    body: bytes = b""

    def __getitem__(self, key: str) -> Any:
        """A field of the header."""
        return self.header[key]

    def get(self, key: str, default: Any = None) -> Any:
        return self.header.get(key, default)


class Refused(Exception):
    """The other side answered `ok: false`: it decided, so there is nothing to retry."""

    def __init__(self, header: dict[str, Any]) -> None:
        self.error: str = header["error"]
        self.fields = header
        super().__init__(f"{header.get('op', 'call')}: {self.error}")


class Unreachable(Exception):
    """No answer before the deadline; the call may or may not have taken effect."""


class Garbled(ConnectionError):
    """The peer sent something that is no frame; the connection is of no more use."""


def digest(data: bytes) -> str:
    """How shards and manifests are named by their content."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def encode(header: dict[str, Any], body: bytes = b"") -> bytes:
    """A frame as bytes."""
    if body:
        header = {**header, "body": len(body)}
    text = json.dumps(header, separators=(",", ":")).encode()
    return LENGTH.pack(len(text)) + text + body


def header_length(prefix: bytes) -> int:
    """The length of the header, from the first 4 bytes."""
    (length,) = LENGTH.unpack(prefix)
    if not 2 <= length <= MAX_HEADER:
        raise Garbled(f"a header of {length} bytes")
    return int(length)


def decode_header(text: bytes) -> tuple[dict[str, Any], int]:
    """The header and the length of the body that follows."""
    try:
        header = json.loads(text)
        size = header.pop("body", 0)
    except (ValueError, AttributeError, TypeError) as error:
        raise Garbled("a header that is no JSON object") from error
    if not isinstance(size, int) or not 0 <= size <= MAX_BODY:
        raise Garbled(f"a body of {size} bytes")
    return header, size


def backoff(attempt: int) -> float:
    """Seconds to wait before try `attempt` + 1: half jitter, 50 ms, 100 ms, … 400 ms."""
    return random.uniform(0.5, 1.0) * min(0.05 * 2.0 ** min(attempt, 9), 0.4)


class Line:
    """A blocking connection. Frames may be sent from several threads; one thread receives."""

    def __init__(self, stream: socket.socket) -> None:
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = stream
        self._sending = threading.Lock()

    @classmethod
    def connect(cls, address: Address, timeout: float = 1.0, *, source: str | None = None) -> Line:
        """Connect, from the address `source` where one is given; OSError when nobody answers.

        `timeout` also bounds every later send and receive until `settimeout` says otherwise.
        """
        return cls(socket.create_connection(address, timeout, (source, 0) if source else None))

    def settimeout(self, seconds: float | None) -> None:
        """How long a send or a receive may take; None: for ever."""
        self._socket.settimeout(seconds)

    def send(self, header: dict[str, Any], body: bytes = b"") -> None:
        """Send one frame; OSError when the connection has gone."""
        data = encode(header, body)
        with self._sending:
            self._socket.sendall(data)

    def receive(self) -> Frame:
        """The next frame; ConnectionError at the end of the stream. After a TimeoutError the line is of no more use."""
        header, size = decode_header(self._exactly(header_length(self._exactly(LENGTH.size))))
        return Frame(header, self._exactly(size) if size else b"")

    def close(self) -> None:
        """Close; wakes a thread that receives."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _exactly(self, size: int) -> bytes:
        data, got = bytearray(size), 0
        while got < size:
            more = self._socket.recv_into(memoryview(data)[got:])
            if not more:
                raise ConnectionError("the peer closed the connection")
            got += more
        return bytes(data)


class Caller:
    """Blocking calls to one service: a timeout for each try, one deadline over all, a new connection for each retry.

    Only for idempotent calls, which all of the store's are. Threads take turns.
    """

    def __init__(self, address: Address, member: str, *, try_timeout: float = 1.0, source: str | None = None) -> None:
        self._address, self._member, self._try_timeout, self._source = address, member, try_timeout, source
        self._line: Line | None = None
        self._turn = threading.Lock()
        self._id = 0

    def call(self, op: str, *, body: bytes = b"", deadline: float = 20.0, **fields: Any) -> Frame:
        """The reply; raises Refused when it says `ok: false`, Unreachable after `deadline` seconds."""
        end, attempt = time.monotonic() + deadline, 0
        with self._turn:
            while True:
                try:
                    return self._try(op, fields, body, min(self._try_timeout, end - time.monotonic()))
                except OSError as error:
                    self.close()
                    pause = backoff(attempt)
                    attempt += 1
                    if time.monotonic() + pause >= end:
                        raise Unreachable(f"{op} at {self._address}: {error}") from error
                    time.sleep(pause)

    def close(self) -> None:
        """Drop the connection; the next call opens another."""
        line, self._line = self._line, None
        if line is not None:
            line.close()

    def _try(self, op: str, fields: dict[str, Any], body: bytes, timeout: float) -> Frame:
        if self._line is None:
            self._line = Line.connect(self._address, timeout, source=self._source)
        self._line.settimeout(max(timeout, 0.01))
        self._id += 1
        self._line.send({"op": op, "id": self._id, "member": self._member, **fields}, body)
        while (reply := self._line.receive()).get("id") != self._id:
            pass
        if not reply["ok"]:
            raise Refused({"op": op, **reply.header})
        return reply
