"""Requests out of packets, made by hand."""

from __future__ import annotations

import socket
import struct

import pytest

from chaos.drivers.process.flows import Requests

CLIENT, SERVER, PORT = "10.0.0.1", "10.0.0.9", 80


def packet(source: str, target: str, ports: tuple[int, int], seq: int, data: bytes = b"", flags: int = 0x10) -> bytes:
    tcp = struct.pack(">HHIIBBHHH", *ports, seq % (1 << 32), 0, 5 << 4, flags, 0, 0, 0) + data
    head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(tcp), 0, 0, 64, 6, 0)
    return head + socket.inet_aton(source) + socket.inet_aton(target) + tcp


def asks(seq: int, data: bytes = b"", *, port: int = 5000, flags: int = 0x10) -> bytes:
    return packet(CLIENT, SERVER, (port, PORT), seq, data, flags)


def answers(data: bytes = b"ok", *, port: int = 5000) -> bytes:
    return packet(SERVER, CLIENT, (PORT, port), 1, data)


def requests(*packets: bytes) -> list[bytes]:
    seen = Requests("n0", CLIENT, PORT)
    return [found.data for one in packets if (found := seen.packet(one)) is not None]


def test_a_request_is_what_is_sent_between_two_answers() -> None:
    assert requests(
        asks(99, flags=2), asks(100, b"one "), answers(b""), asks(104, b"two"), answers(), answers(),
        asks(107, b"three"),
        answers(),
    ) == [b"one two", b"three"]  # fmt: skip


@pytest.mark.parametrize("start", [100, (1 << 32) - 5])
def test_what_is_sent_twice_counts_once(start: int) -> None:
    assert requests(asks(start, b"abcd"), asks(start, b"abcd"), asks(start + 2, b"cdEF"), answers()) == [b"abcdEF"]


def test_a_request_with_a_hole_is_none_and_the_next_one_is_whole_again() -> None:
    assert requests(asks(100, b"ab"), asks(110, b"cd"), answers(), asks(112, b"ef"), answers()) == [b"ef"]


def test_connections_are_kept_apart() -> None:
    assert requests(asks(1, b"a", port=5000), asks(1, b"b", port=5001), answers(port=5001), answers(port=5000)) == [
        b"b",
        b"a",
    ]


def test_what_others_send_to_this_node_is_not_its_own() -> None:
    assert (
        requests(packet("10.0.0.2", CLIENT, (5000, PORT), 1, b"x"), packet(CLIENT, "10.0.0.2", (PORT, 5000), 1, b"y"))
        == []
    )


def test_padding_is_no_content() -> None:
    assert requests(asks(100, b"ab") + bytes(10), answers()) == [b"ab"]
