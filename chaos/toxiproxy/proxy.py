"""A proxy: a listener, its connections, and the toxics that they get."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chaos.toxiproxy import errors
from chaos.toxiproxy.addresses import written
from chaos.toxiproxy.connection import Connection
from chaos.toxiproxy.events import Log
from chaos.toxiproxy.loop import IN, Loop
from chaos.toxiproxy.metrics import Counts, Labels
from chaos.toxiproxy.toxic import Toxic, Value

BREATH = 0.1  # seconds until the next try to accept, when the process has no descriptor left
ACCEPTS = 64  # at once, before others have their turn


@dataclass(frozen=True)
class Shared:
    """What all proxies of a server have in common."""

    loop: Loop
    log: Log
    counts: Counts
    seed: int
    mark: int = 0
    dial_within: float = 10.0
    highest: int = 1 << 30  # descriptor that a connection may take; those above are for the API


class Proxy:
    """What is between a listening address and an upstream. Nothing here waits for data or for a peer."""

    def __init__(self, shared: Shared, name: str, listen: str, upstream: str) -> None:
        self.name = name
        self.listen = listen  # while enabled: the bound address
        self.upstream = upstream
        self.toxics: list[Toxic] = []  # in order of addition
        self.loop, self.log = shared.loop, shared.log
        self.seed, self.mark, self.dial_within = shared.seed, shared.mark, shared.dial_within
        self.connections: dict[int, Connection] = {}
        self._counts = shared.counts
        self._highest = shared.highest
        self._listener: socket.socket | None = None
        self._count = 0  # of connections; never starts anew, for dice depend on the number

    @property
    def enabled(self) -> bool:
        return self._listener is not None

    def shown(self) -> dict[str, Any]:
        """For JSON."""
        toxics = [toxic.shown() for toxic in self.chain()]
        about = {"name": self.name, "listen": self.listen, "upstream": self.upstream, "enabled": self.enabled}
        return {**about, "toxics": toxics}

    def chain(self) -> list[Toxic]:
        """The toxics, those towards the upstream first."""
        return sorted(self.toxics, key=lambda toxic: not toxic.upstream)

    # --- listening ---------------------------------------------------------------------------------------------------

    def start(self, listener: socket.socket) -> None:
        """Accept from a socket that listens already."""
        self._listener = listener
        self.listen = written(listener.getsockname())
        self.loop.poller.watch(listener.fileno(), IN, self._accept)
        self.log.record("proxy.started", proxy=self.name, listen=self.listen, upstream=self.upstream)

    def stop(self, how: str) -> None:
        """Close the listener and all connections."""
        if (listener := self.hand_over(how)) is not None:
            listener.close()

    def hand_over(self, how: str) -> socket.socket | None:
        """As stop, but the listener stays open, for whoever starts on it next."""
        listener, self._listener = self._listener, None
        if listener is not None:
            self.loop.poller.forget(listener.fileno())
            self.log.record("proxy.stopped", proxy=self.name, listen=self.listen, why=how)
        for connection in list(self.connections.values()):
            connection.close(how)
        return listener

    def _accept(self, mask: int) -> None:
        for _ in range(ACCEPTS):
            if (listener := self._listener) is None:
                return
            try:
                sock, peer = listener.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:
                self.log.record("proxy.cannot-accept", proxy=self.name, reason=error.strerror)
                self.loop.poller.forget(listener.fileno())
                self.loop.call_later(BREATH, self._listen_again, listener)
                return
            if sock.fileno() > self._highest:
                sock.close()
                self.log.record("proxy.cannot-accept", proxy=self.name, reason="too many connections")
                continue
            self._count += 1
            self.connections[self._count] = connection = Connection(self, self._count, sock, peer)
            connection.start()

    def _listen_again(self, listener: socket.socket) -> None:
        if self._listener is listener:
            self.loop.poller.watch(listener.fileno(), IN, self._accept)

    def gone(self, connection: Connection) -> None:
        del self.connections[connection.number]
        self._add_counts(connection, self._counts)

    def count_live(self, counts: Counts) -> None:
        for connection in self.connections.values():
            self._add_counts(connection, counts)

    def _add_counts(self, connection: Connection, counts: Counts) -> None:
        for link in connection.links:
            direction = "upstream" if link.upstream else "downstream"
            counts.add(Labels(direction, self.listen, self.name, self.upstream), link.received, link.sent)

    # --- toxics ------------------------------------------------------------------------------------------------------

    def toxic(self, name: str) -> Toxic:
        for toxic in self.toxics:
            if toxic.name == name:
                return toxic
        raise errors.toxic_not_found()

    def add(self, toxic: Toxic) -> None:
        if any(other.name == toxic.name for other in self.toxics):
            raise errors.toxic_exists()
        self.toxics.append(toxic)
        self.log.record("toxic.added", proxy=self.name, toxic=toxic.name, **_about(toxic))
        self.expire(toxic, toxic.ttl_ms)
        for connection in list(self.connections.values()):
            connection.sync()

    def change(self, toxic: Toxic, values: Mapping[str, Value], toxicity: float) -> None:
        """In force at once, on open connections as well."""
        toxic.values.update(values)
        toxic.given |= values.keys()
        toxic.toxicity = toxicity
        self.log.record("toxic.updated", proxy=self.name, toxic=toxic.name, **_about(toxic))
        for connection in list(self.connections.values()):
            connection.sync()
            if values:
                connection.updated(toxic)

    def remove(self, toxic: Toxic, why: str) -> None:
        """What it held goes on at once, at the pace of its reader; this call does not wait for that."""
        self.toxics.remove(toxic)
        self.expire(toxic, 0)
        self.log.record("toxic.removed", proxy=self.name, toxic=toxic.name, why=why)
        for connection in list(self.connections.values()):
            connection.sync()

    def expire(self, toxic: Toxic, ttl_ms: int) -> None:
        """Let it be removed so much later, counted from now; 0: never."""
        if toxic.expiry is not None:
            toxic.expiry.cancel()
        toxic.ttl_ms = ttl_ms
        toxic.expiry = self.loop.call_later(ttl_ms / 1000, self.remove, toxic, "ttl") if ttl_ms else None

    def clear(self, why: str) -> None:
        """Remove all toxics."""
        for toxic in self.toxics[::-1]:
            self.remove(toxic, why)


def _about(toxic: Toxic) -> dict[str, Any]:
    return {key: value for key, value in toxic.shown().items() if key != "name"}
