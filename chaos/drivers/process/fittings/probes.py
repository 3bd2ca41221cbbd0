"""What a toxic does to a connection, measured on one whose both ends are ours.

Each probe says whether the connection fares as under the toxic, and what was seen. A toxic that takes longer than
`PATIENCE` is not waited for to its end: that nothing came so far is the evidence.
"""

from __future__ import annotations

import errno
import socket
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

import anyio

from chaos.api import JSON
from chaos.drivers.process.fittings.wire import CHUNK, flow

PATIENCE = 0.3  # seconds; an undisturbed byte takes a thousandth of it
MOST = 1 << 26  # bytes that a probe sends

Probe = Callable[[socket.socket, socket.socket, Mapping[str, int]], Awaitable[tuple[bool, JSON]]]


async def latency(sender: socket.socket, receiver: socket.socket, values: Mapping[str, int]) -> tuple[bool, JSON]:
    span = values["latency"] + values.get("jitter", 0)
    floor = max(values["latency"] - values.get("jitter", 0), span / 10) / 1000
    within = min(span / 1000, PATIENCE) + PATIENCE
    seconds = await _trip(sender, receiver, within)
    seen = {"seconds": round(seconds, 6)} if seconds < float("inf") else {"longer than": within}
    return seconds >= min(floor, PATIENCE), seen


async def bandwidth(sender: socket.socket, receiver: socket.socket, values: Mapping[str, int]) -> tuple[bool, JSON]:
    rate = values["rate"] * 1000
    size = min(max(int(rate * 4 * PATIENCE), 4000), MOST)
    arrived, seconds = await flow(sender, receiver, size, PATIENCE)
    return arrived < 0.75 * size, {"bytes per second": int(arrived / seconds), "sent": size, "arrived": arrived}


async def slow_close(sender: socket.socket, receiver: socket.socket, values: Mapping[str, int]) -> tuple[bool, JSON]:
    floor, began = min(values["delay"] / 1000, PATIENCE), time.monotonic()
    sender.shutdown(socket.SHUT_WR)
    end = await _read(receiver, floor + PATIENCE)
    seconds = time.monotonic() - began
    if end is None:
        return True, {"longer than": round(seconds, 6)}
    return seconds >= floor, {"seconds": round(seconds, 6)}


async def timeout(sender: socket.socket, receiver: socket.socket, values: Mapping[str, int]) -> tuple[bool, JSON]:
    with suppress(OSError):
        sender.send(b"?")
    said = await _read(receiver, PATIENCE)
    how = {None: "nothing", b"": "the end"}.get(said, "the data")
    return said in (None, b""), {"sent": 1, "arrived": how, "within": PATIENCE}


async def reset_peer(sender: socket.socket, receiver: socket.socket, values: Mapping[str, int]) -> tuple[bool, JSON]:
    with suppress(OSError):
        sender.send(b"?")
    soon = values["timeout"] / 1000 <= PATIENCE
    try:
        said = await _read(receiver, 2 * PATIENCE if soon else PATIENCE)
    except OSError as error:
        return True, {"error": errno.errorcode.get(error.errno or 0, str(error))}
    return said is None and not soon, {"arrived": "nothing" if said is None else "the data", "within": PATIENCE}


async def slicer(sender: socket.socket, receiver: socket.socket, values: Mapping[str, int]) -> tuple[bool, JSON]:
    size = min(8 * (values["average_size"] + values.get("size_variation", 0)), CHUNK)
    await anyio.wait_writable(sender)
    sender.send(bytes(size))
    arrived, pieces, began = 0, 0, time.monotonic()
    while arrived < size and (data := await _read(receiver, PATIENCE)):
        arrived, pieces = arrived + len(data), pieces + 1
    seconds = time.monotonic() - began
    return pieces > 1 or arrived < size, {"sent": size, "pieces": pieces, "seconds": round(seconds, 6)}


async def limit_data(sender: socket.socket, receiver: socket.socket, values: Mapping[str, int]) -> tuple[bool, JSON]:
    size = min(values["bytes"] + 1000, MOST)
    try:
        arrived, _ = await flow(sender, receiver, size, 10 * PATIENCE)
    except OSError:
        return False, {"sent": size, "arrived": "an error"}
    return arrived == values["bytes"], {"sent": size, "arrived": arrived}


PROBES: Mapping[str, Probe] = {
    probe.__name__: probe for probe in (latency, bandwidth, slow_close, timeout, reset_peer, slicer, limit_data)
}


async def _trip(sender: socket.socket, receiver: socket.socket, within: float) -> float:
    began = time.monotonic()
    with suppress(OSError):
        sender.send(b"?")
    said = await _read(receiver, within)
    return time.monotonic() - began if said else float("inf")


async def _read(receiver: socket.socket, within: float) -> bytes | None:
    """What comes: data, nothing at the end of the stream, None when it does not come in time."""
    with anyio.move_on_after(within):
        await anyio.wait_readable(receiver)
        return receiver.recv(CHUNK)
    return None
