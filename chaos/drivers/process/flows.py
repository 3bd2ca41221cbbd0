"""Requests out of packets: what a client sends over TCP between two answers."""

from __future__ import annotations

import ctypes
import socket
import struct
import time

from chaos.talk import Recorded

SO_ATTACH_FILTER = 26
_WRAP = 1 << 32
_SYN = 0x02
_MOST = 64 << 20  # bytes of a request; a longer one is not kept


def only_port(packets: socket.socket, port: int) -> None:
    """Have the kernel hand over nothing but TCP over IPv4 from or to that port."""
    program = (
        (0x30, 0, 0, 0),  # A = version and length of the header
        (0x54, 0, 0, 0xF0),
        (0x15, 0, 9, 0x40),  # version 4, else drop
        (0x30, 0, 0, 9),  # A = protocol
        (0x15, 0, 7, 6),  # TCP, else drop
        (0x28, 0, 0, 6),  # A = place of the fragment
        (0x45, 5, 0, 0x1FFF),  # a later fragment has no ports
        (0xB1, 0, 0, 0),  # X = length of the header
        (0x48, 0, 0, 0),  # A = source port
        (0x15, 3, 0, port),
        (0x48, 0, 0, 2),  # A = destination port
        (0x15, 1, 0, port),
        (0x06, 0, 0, 0),  # drop
        (0x06, 0, 0, 0xFFFFFFFF),  # keep
    )
    code = b"".join(struct.pack("=HBBI", *line) for line in program)
    buffer = ctypes.create_string_buffer(code, len(code))
    packets.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("@HP", len(program), ctypes.addressof(buffer)))


class _Flow:
    """One connection, from its client's side."""

    def __init__(self) -> None:
        self.expected: int | None = None  # sequence number of the client's next byte
        self.data = bytearray()
        self.whole = True  # nothing is missing in between; where a recording begins in a request, its beginning is
        self.last = 0.0


class Requests:
    """Puts the packets of a node's clients together. A request is all that one sends between two answers."""

    def __init__(self, node: str, address: str, port: int) -> None:
        self._node, self._own, self._port = node, socket.inet_aton(address), port
        self._flows: dict[tuple[bytes, int, bytes], _Flow] = {}

    def packet(self, packet: bytes) -> Recorded | None:
        """Take one IPv4 packet; the request that it ends, if it does."""
        start = (packet[0] & 0xF) * 4
        total = struct.unpack_from(">H", packet, 2)[0] or len(packet)
        source, target, sequence = struct.unpack_from(">HHI", packet, start)
        payload = packet[start + (packet[start + 12] >> 4) * 4 : total]
        if target == self._port:
            if packet[12:16] != self._own:  # what others send to this node
                return None
            flow = self._flows.setdefault((packet[12:16], source, packet[16:20]), _Flow())
            if packet[start + 13] & _SYN:
                flow.expected, flow.data, flow.whole = (sequence + 1) % _WRAP, bytearray(), True
            elif payload:
                self._extend(flow, sequence, payload)
            return None
        return self._end((packet[16:20], target, packet[12:16])) if payload else None

    def _extend(self, flow: _Flow, sequence: int, payload: bytes) -> None:
        if flow.expected is None:  # the connection is older than the recording
            flow.expected = sequence
        ahead = (sequence - flow.expected + _WRAP // 2) % _WRAP - _WRAP // 2
        if ahead > 0 or len(flow.data) > _MOST:  # a packet was missed
            flow.whole = False
        new = payload[-ahead:] if -len(payload) < ahead <= 0 and ahead else b"" if ahead < 0 else payload
        if new:
            flow.data += new
            flow.expected = (sequence + len(payload)) % _WRAP
        flow.last = time.monotonic()

    def _end(self, key: tuple[bytes, int, bytes]) -> Recorded | None:
        """An answer: the request before it is complete, and the next byte of the client begins another."""
        flow = self._flows.get(key)
        if flow is None:
            return None
        data, whole = bytes(flow.data), flow.whole
        flow.data, flow.whole = bytearray(), True
        if not data or not whole:
            return None
        return Recorded(node=self._node, to=(socket.inet_ntoa(key[2]), self._port), data=data, t=flow.last)
