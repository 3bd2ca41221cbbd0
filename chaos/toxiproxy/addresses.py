"""Addresses as the API writes them, `host:port`; binding and what the kernel knows of a redirected connection."""

from __future__ import annotations

import os
import socket
import struct
from typing import Any, NamedTuple

from chaos.toxiproxy.errors import ApiError, cannot_listen

ANYWHERE_LOCAL = "127.0.0.1:0"  # where a proxy listens that says nothing; the original takes all interfaces
ORIGINAL = "original:"  # the upstream that stands for: wherever the redirected client wanted to go
BACKLOG = 4096
SO_ORIGINAL_DST = 80  # of level IP and IPv6 alike; Python has no name for it
SO_MARK = getattr(socket, "SO_MARK", 36)


class Address(NamedTuple):
    """Resolved: what the socket calls take."""

    family: int
    at: tuple[Any, ...]

    def __str__(self) -> str:
        return written(self.at)


def written(at: tuple[Any, ...]) -> str:
    """`127.0.0.1:80`, `[::1]:80`."""
    return f"[{at[0]}]:{at[1]}" if ":" in at[0] else f"{at[0]}:{at[1]}"


def split(text: str) -> tuple[str, str]:
    """Host and port. Raises ValueError with the original's words."""
    host, colon, port = text.rpartition(":")
    if not text:
        raise ValueError("missing address")
    if not colon or (host.startswith("[") and not host.endswith("]")):
        raise ValueError(f"address {text}: missing port in address")
    if host.startswith("["):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"address {text}: too many colons in address")
    if port.isdecimal() and int(port) > 65535:
        raise ValueError(f"address {port}: invalid port")
    return host, port


def local(text: str) -> Address:
    """Where to listen. Raises ValueError. IPv4 first; no host stands for all interfaces."""
    host, port = split(text)
    if not host:
        host = "::" if socket.has_dualstack_ipv6() else "0.0.0.0"
    try:
        found = socket.getaddrinfo(host, port or "0", type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise ValueError(f"lookup {host}: {(error.strerror or str(error)).lower()}") from error
    best = min(found, key=lambda entry: entry[0] != socket.AF_INET)
    return Address(best[0], best[4])


def numeric(text: str) -> Address | None:
    """The address if it needs no look-up."""
    try:
        host, port = split(text)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        socket.inet_pton(family, host)
        return Address(family, (host, int(port)))
    except (ValueError, OSError):
        return None


def same(old: str, new: str) -> bool:
    """Whether to listen at the new place is to stay. Raises ValueError where that is none."""
    return old == str(local(new))


def bind(text: str) -> socket.socket:
    """Listen there. Raises ApiError."""
    try:
        address = local(text)
    except ValueError as error:
        raise cannot_listen(f"listen tcp: {error}") from error
    sock = socket.socket(address.family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if address.at[0] == "::":
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        sock.bind(address.at)
        sock.listen(BACKLOG)
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        reason = os.strerror(error.errno or 0).lower()
        raise cannot_listen(f"listen tcp {address}: bind: {reason}") from error
    return sock


def in_use(error: ApiError) -> bool:
    return error.text.endswith("address already in use")


def original(sock: socket.socket) -> Address:
    """Where the client of a redirected connection wanted to go. Raises OSError where it was not redirected."""
    if sock.family == socket.AF_INET6 and not sock.getsockname()[0].startswith("::ffff:"):
        raw = sock.getsockopt(socket.IPPROTO_IPV6, SO_ORIGINAL_DST, 28)
        port = struct.unpack_from("!H", raw, 2)[0]
        found = Address(socket.AF_INET6, (socket.inet_ntop(socket.AF_INET6, raw[8:24]), port))
    else:
        raw = sock.getsockopt(socket.IPPROTO_IP, SO_ORIGINAL_DST, 16)
        port = struct.unpack_from("!H", raw, 2)[0]
        found = Address(socket.AF_INET, (socket.inet_ntoa(raw[4:8]), port))
    if found.at[:2] == (sock.getsockname()[0].removeprefix("::ffff:"), sock.getsockname()[1]):
        raise OSError(0, "not redirected: the client wanted to reach this proxy itself")
    return found
