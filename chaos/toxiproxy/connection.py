"""One client's connection through a proxy: two sockets, two links."""

from __future__ import annotations

import errno
import socket
import struct
from random import Random
from typing import Any, Protocol

from chaos.toxiproxy.addresses import ORIGINAL, original, written
from chaos.toxiproxy.dial import Dial
from chaos.toxiproxy.events import Log
from chaos.toxiproxy.link import Link, Port, discard
from chaos.toxiproxy.loop import IN, Loop
from chaos.toxiproxy.toxic import End, Stage, Toxic

LINGER_NONE = struct.pack("ii", 1, 0)  # close with RST


class Home(Protocol):
    """The proxy, as its connections see it."""

    name: str
    upstream: str
    toxics: list[Toxic]
    loop: Loop
    log: Log
    seed: int
    mark: int
    dial_within: float

    def gone(self, connection: Connection) -> None: ...


class Connection:
    """From accept to close. Every close is an event that says how it came about."""

    def __init__(self, home: Home, number: int, client: socket.socket, peer: tuple[Any, ...]) -> None:
        self.number = number
        self.links: tuple[Link, ...] = ()  # towards the upstream, and back
        self._home = home
        self._client = client
        self._server: socket.socket | None = None
        self._ports: tuple[Port, ...] = ()
        self._peer = peer
        self._draws: dict[str, float] = {}
        self._toxics: dict[str, Toxic] = {}  # of the stages that are at work
        self._cause = ""
        self._closed = False
        self._dial = Dial(
            home.loop, mark=home.mark, within=home.dial_within, done=self._connected, failed=self._unreachable
        )

    def start(self) -> None:
        self._client.setblocking(False)
        if self._home.upstream != ORIGINAL:
            return self._dial.start(self._home.upstream)
        try:
            address = original(self._client)
        except OSError as error:
            return self._unreachable(f"no original destination: {(error.strerror or str(error)).lower()}")
        return self._dial.reach([address])

    def _unreachable(self, reason: str) -> None:
        self._record("connection.refused", client=written(self._peer), reason=reason)
        self.close(f"upstream: {reason}", quiet=True)

    def _connected(self, server: socket.socket) -> None:
        loop = self._home.loop
        self._server = server
        try:
            address = written(server.getpeername())
            for sock in (self._client, server):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:  # gone as soon as it was there
            return self._unreachable((error.strerror or str(error)).lower())
        ports = self._ports = (Port(self._client, loop), Port(server, loop))
        self.links = (
            Link(self, ports[0], ports[1], upstream=True, loop=loop),
            Link(self, ports[1], ports[0], upstream=False, loop=loop),
        )
        self._record("connection.opened", client=written(self._peer), upstream=address)
        self.sync()
        if not self._closed:
            for port in ports:
                port.want(IN)
        return None

    # --- toxics ------------------------------------------------------------------------------------------------------

    def sync(self) -> None:
        """Make the stages those of the proxy's toxics that hit this connection."""
        for link in self.links:
            wanted = [t for t in self._home.toxics if t.upstream is link.upstream and self._is_hit(t)]
            for stage in link.stages[::-1]:
                if self._toxics[stage.name] not in wanted and not link.closed:
                    self._total(stage)
                    link.remove(stage)
            for place, toxic in enumerate(wanted):
                if link.closed:
                    return
                if place == len(link.stages) or link.stages[place].name != toxic.name:
                    self._toxics[toxic.name] = toxic
                    dice = self._dice(toxic.name)
                    dice.random()  # the one that decided on the hit
                    link.insert(place, toxic.kind(toxic.name, toxic.values, dice, link))

    def updated(self, toxic: Toxic) -> None:
        """The values of a toxic have changed."""
        for link in self.links:
            for stage in link.stages[:]:
                if stage.name == toxic.name and not link.closed:
                    stage.updated()

    def _is_hit(self, toxic: Toxic) -> bool:
        """Drawn once and kept: neither an update nor a neighbour throws the dice again."""
        if toxic.name not in self._draws:
            self._draws[toxic.name] = self._dice(toxic.name).random()
        return self._draws[toxic.name] < toxic.toxicity

    def _dice(self, toxic: str) -> Random:
        return Random(f"{self._home.seed}/{self._home.name}/{self.number}/{toxic}")

    def hit(self, stage: Stage) -> None:
        self._record("toxic.hit", toxic=stage.name, action=stage.action, bytes=stage.bytes)

    def blame(self, stage: Stage) -> None:
        self._cause = self._cause or f"toxic {stage.name}"

    def _total(self, stage: Stage) -> None:
        if stage.hits:
            self._record("toxic.total", toxic=stage.name, action=stage.action, hits=stage.hits, bytes=stage.bytes)

    # --- the end -----------------------------------------------------------------------------------------------------

    def ended(self, link: Link, end: End) -> None:
        if end is End.EOF:
            if all(one.finished for one in self.links):
                self.close(f"eof from both, last from the {'client' if link.upstream else 'upstream'}")
        else:
            self.close(f"{end.value} by {self._cause or 'an end'}", reset=end is End.RESET)

    def broken(self, port: Port, error: OSError) -> None:
        """One end has reset the connection, or gone while we wrote: the other end is told as bluntly."""
        who = "client" if port.sock is self._client else "upstream"
        name = errno.errorcode.get(error.errno or 0, "error")
        self.close(f"{name} from the {who}", reset=True)

    def close(self, how: str, *, reset: bool = False, quiet: bool = False) -> None:
        """Close both ends now. Without `reset` they see FIN: what we have not read is read and thrown away."""
        if self._closed:
            return
        self._closed = True
        self._dial.cancel()
        for link in self.links:
            for stage in link.stages:
                self._total(stage)
            link.close()
        for port in self._ports:
            port.forget()
        for sock in filter(None, (self._client, self._server)):
            if reset:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NONE)
            else:
                discard(sock)
            sock.close()
        if not quiet:
            self._record("connection.closed", how=how, **self._counts())
        self._home.gone(self)

    # --- what is known of it -----------------------------------------------------------------------------------------

    def shown(self) -> dict[str, Any]:
        """For JSON: live counters, and what each toxic did so far."""
        stages = [
            {"name": s.name, "stream": "upstream" if link.upstream else "downstream", "hits": s.hits, "bytes": s.bytes}
            for link in self.links
            for s in link.stages
        ]
        state = "open" if self.links else "dialling"
        about = {"connection": self.number, "client": written(self._peer), "state": state}
        return {**about, **self._counts(), "toxics": stages}

    def _counts(self) -> dict[str, Any]:
        """Bytes by direction: read from its sender, and written to its receiver."""
        names = {True: "upstream", False: "downstream"}
        return {names[one.upstream]: {"received": one.received, "sent": one.sent} for one in self.links}

    def _record(self, event: str, **fields: Any) -> None:
        self._home.log.record(event, proxy=self._home.name, connection=self.number, **fields)
