"""What faults of the network may ask of a target beyond cuts: the rest of `chaos.api` for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Protocol, runtime_checkable

import msgspec

from chaos.api import JSON, Duration, Links, Ratio, Size


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """What befalls packets from each first to each second node: one of loss, rate and delay."""

    pairs: tuple[tuple[str, str], ...]
    loss: Ratio = 0.0
    rate: Size = 0  # bytes per second
    delay: Duration = 0.0
    jitter: Duration = 0.0


@runtime_checkable
class Lossy(Links, Protocol):
    """The path between any two nodes can lose packets at random."""

    async def lose(self, shape: Shape) -> JSON:
        """Have it so, and measure it: what was sent and what arrived; NotLanded if it is not so."""

    async def keep(self, shape: Shape) -> JSON:
        """Undo it, and prove that every packet arrives."""


@runtime_checkable
class Slow(Links, Protocol):
    """The path between any two nodes can be given a rate."""

    async def slow(self, shape: Shape) -> JSON:
        """Have it so, and measure it: bytes per second before and with it; NotLanded if it is not so."""

    async def quicken(self, shape: Shape) -> JSON:
        """Undo it, and prove that bytes pass faster."""


@runtime_checkable
class Late(Links, Protocol):
    """Packets between any two nodes can be delayed."""

    async def delay(self, shape: Shape) -> JSON:
        """Have it so, and measure it: the time a packet takes before and with it; NotLanded if it is not so."""

    async def hasten(self, shape: Shape) -> JSON:
        """Undo it, and prove that packets arrive sooner."""


class Toxic(msgspec.Struct, frozen=True, kw_only=True):
    """What befalls the streams of a declared link, on connections that these nodes make."""

    link: str
    nodes: tuple[str, ...]
    kind: str  # a toxic of Toxiproxy; `down` lets no connection be, nor come about
    streams: tuple[Literal["upstream", "downstream"], ...] = ()  # towards the server, and back
    attributes: Mapping[str, int] = {}
    toxicity: Ratio = 1.0  # the share of connections that are hit
    ttl: Duration = 0.0  # after which it goes by itself where the server can do that; 0: never


@runtime_checkable
class Streams(Protocol):
    """Connections of the links that its target file declares go through Toxiproxy."""

    async def poison(self, toxic: Toxic) -> JSON:
        """Add it, and measure it on a connection of the harness; NotLanded, and nothing left, if it does nothing."""

    async def cure(self, toxic: Toxic) -> JSON:
        """Undo it, and prove that a connection fares well again; says how many connections of the target it met."""

    async def wait_met(self, toxic: Toxic) -> JSON:
        """Return when it has met a connection of the target: which one, and what it did to it."""


class Misnaming(msgspec.Struct, frozen=True, kw_only=True):
    """What the names of these nodes are answered with: the address of another node, or nothing."""

    names: tuple[str, ...]
    answer: str | None = None


@runtime_checkable
class Names(Protocol):
    """Nodes are found by their names, and what a name is answered with can be changed."""

    async def misname(self, change: Misnaming) -> JSON:
        """Have it so, and prove it: what each name was answered with before and is now; NotLanded if it is not so."""

    async def rename(self, change: Misnaming) -> JSON:
        """Undo it, and prove that each name is answered as before."""
