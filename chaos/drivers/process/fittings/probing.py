"""Connections of the harness over a link's way, which fare as the target's do: they are measured, and not counted."""

from __future__ import annotations

import math
import socket
from collections.abc import Mapping, Sequence

import anyio

from chaos.api import JSON
from chaos.drivers.process.fittings.probes import PROBES
from chaos.drivers.process.fittings.proxies import Proxy
from chaos.drivers.process.fittings.wire import Wire
from chaos.drivers.process.supervisor import Supervisor
from chaos.errors import NotLanded
from chaos.ways import Toxic

CONNECT_WITHIN = 3.0
MISS = 1e-6  # how likely it may be that the dice of a toxic spare all probes


class Prober:
    """Measures toxics on each way of a link, all ways at the same time."""

    heal_within = 5.0

    def __init__(self, supervisor: Supervisor, wire: Wire, addresses: Mapping[str, str]) -> None:
        self._supervisor, self._wire, self._addresses = supervisor, wire, addresses
        self._upstreams: set[str] = set()

    def made(self, event: JSON) -> bool:
        """Whether an event of a proxy tells of a connection of ours."""
        return event["event"] == "connection.opened" and event["upstream"] in self._upstreams

    async def measure(self, toxic: Toxic, proxies: Sequence[Proxy], names: Mapping[str, str]) -> list[JSON]:
        """For each way and stream: whether a connection fares as under the toxic, and what was seen. Where the toxic
        stands (`names`) and hits a share only, connections are made until one is hit."""
        streams = toxic.streams if toxic.kind in PROBES else ("",)
        jobs = [(proxy, stream) for proxy in proxies for stream in streams]
        found: list[JSON] = [{} for _ in jobs]

        async def one(place: int, proxy: Proxy, stream: str) -> None:
            sure = not names or toxic.toxicity >= 1
            tries = 1 if sure else math.ceil(math.log(MISS) / math.log(1 - toxic.toxicity))
            affected, made, seen = False, 0, JSON()
            while not affected and made < tries:
                affected, seen = await self._probe(toxic, proxy, stream)
                made += 1
            which = {"stream": stream} if stream else {}
            more = {"tries": made} if not sure else {}
            found[place] = {**proxy.about, **which, "seen": seen, **more, "affected": affected}

        try:
            async with anyio.create_task_group() as tasks:
                for place, (proxy, stream) in enumerate(jobs):
                    tasks.start_soon(one, place, proxy, stream)
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None
        return found

    async def _probe(self, toxic: Toxic, proxy: Proxy, stream: str) -> tuple[bool, JSON]:
        try:
            near, far = await self._connection(proxy)
        except (OSError, TimeoutError) as error:
            if stream:
                raise NotLanded(f"no connection from {proxy.source} to {proxy.server.node}: {error}") from error
            return isinstance(error, ConnectionRefusedError), {"connection": str(error) or "not accepted"}
        with near, far:
            if not stream:
                return False, {"connection": "accepted"}
            sender, receiver = (near, far) if stream == "upstream" else (far, near)
            return await PROBES[toxic.kind](sender, receiver, toxic.attributes)

    async def _connection(self, proxy: Proxy) -> tuple[socket.socket, socket.socket]:
        """From the node through the proxy to a listener of ours beside the link's own service: both ends."""
        node, source = proxy.server.node, [self._addresses[proxy.source]]
        async with self._wire.listener(node) as listener:
            port = listener.getsockname()[1]
            self._upstreams.add(f"{self._addresses[node]}:{port}")
            lead = {"node": node, "sources": source, "ports": [port]}
            await self._supervisor.packets("redirect", **lead, to=proxy.port)
            try:
                near = await self._wire.connect(proxy.source, listener.getsockname(), CONNECT_WITHIN)
                try:
                    with anyio.fail_after(CONNECT_WITHIN):
                        await anyio.wait_readable(listener)
                    far = listener.accept()[0]
                except BaseException:
                    near.close()
                    raise
            finally:
                await self._supervisor.packets("unredirect", **lead)
        far.setblocking(False)
        far.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return near, far
