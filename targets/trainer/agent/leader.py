"""The agent's connection to the coordinator that leads."""

from __future__ import annotations

import socket
import time
from typing import Any

from targets.trainer.settings import Address
from targets.trainer.wire import LENGTH, Frame, decode_header, encode, header_length


class Leader:
    """A connection with a lease: alive as long as heartbeats are answered. Never blocks on reading."""

    def __init__(self, address: Address, source: str, timeout: float) -> None:
        """Connect from the address `source`; OSError when nobody answers within `timeout`."""
        self.address = address
        self.heartbeat = self._ttl = self.expires = float("inf")  # until the answer to `join`
        self.epoch = 0
        self._sent: dict[int, float] = {}
        self._id = 0
        self._buffer = bytearray()
        self._socket = socket.create_connection(address, timeout, (source, 0))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.settimeout(timeout)

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def ask(self, op: str, **fields: Any) -> None:
        """Send a message whose answer renews the lease, counted from now."""
        self._id += 1
        self._sent[self._id] = time.monotonic()
        self.tell(op, id=self._id, **fields)

    def tell(self, op: str, **fields: Any) -> None:
        """Send a message that needs no answer; OSError when the connection is gone."""
        self._socket.sendall(encode({"op": op, **fields}))

    def read(self) -> list[Frame]:
        """The frames that have come in, at least one byte being there; ConnectionError at the end of the stream."""
        data = self._socket.recv(1 << 16)
        if not data:
            raise ConnectionError("the coordinator closed the connection")
        self._buffer += data
        frames = []
        while (frame := self._next()) is not None:
            if frame.get("ok") and frame.get("id") in self._sent:
                self._renew(frame)
            frames.append(frame)
        return frames

    def _renew(self, answer: Frame) -> None:
        self._ttl, self.heartbeat = answer.get("ttl", self._ttl), answer.get("heartbeat", self.heartbeat)
        self.epoch = answer.get("epoch", self.epoch)
        self.expires = self._sent.pop(answer["id"]) + self._ttl

    def _next(self) -> Frame | None:
        if len(self._buffer) < LENGTH.size:
            return None
        end = LENGTH.size + header_length(bytes(self._buffer[: LENGTH.size]))
        if len(self._buffer) < end:
            return None
        header, size = decode_header(bytes(self._buffer[LENGTH.size : end]))
        if len(self._buffer) < end + size:
            return None
        frame = Frame(header, bytes(self._buffer[end : end + size]))
        del self._buffer[: end + size]
        return frame
