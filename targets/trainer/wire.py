"""Frames over TCP, and the blocking side of them: `Line` (a connection) and `Caller` (request and reply, retried).

A frame is a 4-byte big-endian length, a JSON object of that length, and `body` raw bytes where the object says so.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import random
import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from chaos.inside import emit, recovery_path
from targets.trainer import defects
from targets.trainer.settings import Address, Settings

LENGTH = struct.Struct(">I")
MAX_HEADER = 1 << 20
MAX_BODY = 1 << 31
Clock = Callable[[], float]


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


class Truncated(ConnectionError):
    """The peer closed the connection in the middle of a frame: its header, and what came of its body."""

    def __init__(self, header: dict[str, Any], body: bytes) -> None:
        self.header, self.body = header, body
        super().__init__("the peer closed the connection")


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


class Budget:
    """What a tree of calls may spend on retries: one absolute deadline, one number of retries, wherever they are made.

    Handed down in a message as the seconds that are left, since the clocks of machines differ. Safe in threads.
    """

    def __init__(
        self, seconds: float, retries: float = math.inf, *, named: bool = False, clock: Clock = time.monotonic
    ) -> None:
        self.spent = 0
        self.named = named  # whether its retries are on record, as a recovery path
        self._clock, self._end, self._retries, self._turn = clock, clock() + seconds, retries, threading.Lock()

    @classmethod
    def of(cls, settings: Settings, seconds: float, retries: float, *, clock: Clock = time.monotonic) -> Budget:
        """One whose retries are on record; the place where deliberate bugs spend too much, or nothing."""
        if defects.active(settings, defects.RETRY_UNBOUNDED):
            seconds = retries = math.inf
        if defects.active(settings, defects.NO_RETRY):
            retries = 0
        return cls(seconds, retries, named=True, clock=clock)

    @property
    def seconds(self) -> float:
        """Until the deadline."""
        return max(self._end - self._clock(), 0.0)

    @property
    def retries(self) -> float:
        """That are left."""
        return max(self._retries - self.spent, 0)

    def charge(self, retries: int) -> None:
        """Count retries that somebody further down the tree has made."""
        with self._turn:
            self.spent += retries

    def allows(self, pause: float) -> bool:
        """Whether one more try may be made after `pause` seconds; it is counted."""
        with self._turn:
            if not self.retries or pause >= self.seconds:
                return False
            self.spent += 1
            return True


class Tries:
    """The tries of one call, under a budget."""

    def __init__(self, op: str, address: Address, budget: Budget) -> None:
        self._op, self._address, self._budget, self._made = op, address, budget, 0
        self._path: AbstractContextManager[None] | None = None

    def timeout(self, longest: float) -> float:
        """Of the next try. The first of a call that belongs to a round is always made, however late the round is."""
        first = self._budget.named and not self._made
        return longest if first else min(longest, max(self._budget.seconds, 0.01))

    def again(self, error: Exception) -> float:
        """Seconds to wait before the next try; raises when there is none."""
        if isinstance(error, Refused) and (error.error != "storage" or not self._budget.named):
            raise error
        pause = backoff(self._made)
        if not self._budget.allows(pause):
            if isinstance(error, Refused):
                raise error
            raise Unreachable(f"{self._op} at {self._address}: {error}") from error
        self._made += 1
        if self._budget.named:
            emit("call.retried", op=self._op, attempt=self._made, reason=str(error) or type(error).__name__)
            if self._path is None:
                self._path = recovery_path("storage.retry")
                self._path.__enter__()
        return pause

    def answered(self) -> None:
        """The last one was."""
        if self._path is not None:
            self._path.__exit__(None, None, None)


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
        try:
            return Frame(header, self._exactly(size) if size else b"")
        except Truncated as cut:
            raise Truncated(header, cut.body) from None

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
                raise Truncated({}, bytes(data[:got]))
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

    def call(
        self, op: str, *, body: bytes = b"", deadline: float = 20.0, budget: Budget | None = None, **fields: Any
    ) -> Frame:
        """The reply; raises Refused when it says `ok: false`, Unreachable after `deadline` seconds, or once the budget
        that is given instead is spent. Under a budget trouble with the store's disk is retried as well.
        """
        tries = Tries(op, self._address, budget or Budget(deadline))
        with self._turn:
            while True:
                try:
                    reply = self._try(op, fields, body, tries.timeout(self._try_timeout))
                except (OSError, Refused) as error:
                    if isinstance(error, OSError):
                        self.close()
                    time.sleep(tries.again(error))
                else:
                    tries.answered()
                    return reply

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
