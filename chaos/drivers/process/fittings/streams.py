"""Links that the target declares, led through Toxiproxy: in the lab by its rules, so that the target knows nothing.

    node n2                              node s0
    store client ── wire ── rules: new connections from n2 to 7100 go to … ── proxy shards.n2.s0 ── store at 7100

The rules stand from before the first member starts, for only then all connections of a link are led that way. Who
connects is told by address: other members of a node that connect to the same port go the same way.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

import anyio
from anyio.abc import TaskGroup

from chaos.api import JSON, Launch, capability_of
from chaos.drivers.process.fittings.base import Face, Fitting
from chaos.drivers.process.fittings.probing import Prober
from chaos.drivers.process.fittings.proxies import Proxy, Server, hits
from chaos.drivers.process.fittings.wire import Wire
from chaos.drivers.process.supervisor import Supervisor
from chaos.errors import NotLanded, Unsupported
from chaos.ways import Streams as Capability
from chaos.ways import Toxic

DOWN = "down"
VARIABLE = "CHAOS_TOXIPROXY"  # the address of a server that runs by itself
LOOK = 0.01  # seconds between two looks into the proxies' logs


@dataclass(eq=False)
class Standing:
    """A toxic, as it was added."""

    toxic: Toxic
    proxies: list[Proxy]
    names: dict[str, str]  # of the toxic that is added, by stream
    since: dict[str, int] = field(default_factory=dict)  # the last event of each server before, by node
    connections: dict[str, int] = field(default_factory=dict)  # that a proxy's rule had counted before


class Streams(Fitting):
    """Proxies for the links that this run's faults name."""

    name = "streams"
    capability = Capability
    supervisor: Supervisor
    wire: Wire

    def __init__(self, recipe: Any, stage: Any) -> None:
        super().__init__(recipe, stage)
        self._servers: dict[str, Server] = {}  # by node
        self._proxies: dict[str, list[Proxy]] = {}  # by link
        self._standing: list[Standing] = []
        self._numbers = itertools.count(1)

    # --- set up

    @classmethod
    def wanted(cls, launch: Launch) -> bool:
        return not address(launch) and super().wanted(launch)

    async def set_up(self, supervisor: Supervisor, tasks: TaskGroup) -> str:
        if "links" not in supervisor.mechanisms:
            raise supervisor.linkless(
                "without the lab connections are led through a Toxiproxy only by the target itself",
                f"give its address ({VARIABLE}=host:port)",
            )
        if find_spec("h11") is None:
            raise Unsupported("h11 is not installed", "pip install 'mlchaos[network]'")
        links, slots = self.recipe.spec.links, self.recipe.spec.slots()
        self.supervisor, self.wire = supervisor, Wire(supervisor, self.recipe.addresses)
        self._prober = Prober(supervisor, self.wire, self.recipe.addresses)
        try:
            await supervisor.packets("try", what="streams")
        except NotLanded as error:
            raise Unsupported(
                f"the kernel has no NAT for nftables: {error}", "a kernel with CONFIG_NFT_REDIR"
            ) from error
        wanted = named(self.recipe.launch.faults)
        for link in wanted:
            if link not in links:
                raise Unsupported(f"the target file has no link {link} (known: {', '.join(links) or 'none'})")
        ways = [
            (link, source, target) for link in wanted
            for target in links[link].targets(slots) for source in links[link].sources(slots) if source != target
        ]  # fmt: skip
        self._check_apart(ways)
        await self._start_servers(dict.fromkeys(target for _, _, target in ways), tasks)
        for link, source, target in ways:
            proxy = Proxy(self._servers[target], link, source, links[link].ports)
            try:
                await proxy.create(self.recipe.addresses[target])
                await self._lead(proxy, proxy.ports)
            except NotLanded as error:
                raise Unsupported(str(error)) from error
            self._proxies.setdefault(link, []).append(proxy)
        return "toxiproxy, embedded, by nftables redirect"

    def _check_apart(self, ways: Sequence[tuple[str, str, str]]) -> None:
        """Two links of a run must not share connections."""
        taken: dict[tuple[str, str, int], str] = {}
        for link, source, target in ways:
            for port in self.recipe.spec.links[link].ports:
                other = taken.setdefault((source, target, port), link)
                if other != link:
                    raise Unsupported(
                        f"links {other} and {link} cannot be told apart: both lead from {source} to port {port} of "
                        f"{target}; let faults of one run name only one of them"
                    )

    async def _start_servers(self, nodes: Sequence[str] | dict[str, None], tasks: TaskGroup) -> None:
        async def one(node: str) -> None:
            server = self._servers[node] = Server(node, self.wire, self.recipe.logs)
            await server.start(self.supervisor, self.recipe, tasks, self.recipe.launch.seed)

        try:
            async with anyio.create_task_group() as starting:
                for node in nodes:
                    starting.start_soon(one, node)
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None

    async def _lead(self, proxy: Proxy, ports: Sequence[int], back: bool = False) -> None:
        sources, op = [self.recipe.addresses[proxy.source]], "unredirect" if back else "redirect"
        more = {} if back else {"to": proxy.port}
        await self.supervisor.packets(op, node=proxy.server.node, sources=sources, ports=list(ports), **more)

    async def tear_down(self) -> None:
        for server in self._servers.values():
            server.close()

    # --- what befalls streams

    async def poison(self, toxic: Toxic) -> JSON:
        """Add, then measure on each way; nothing is left where that fails."""
        proxies = [proxy for proxy in self._proxies.get(toxic.link, []) if proxy.source in toxic.nodes]
        if not proxies:
            raise NotLanded(f"no connection of link {toxic.link} leads from {', '.join(toxic.nodes)} to another node")
        number = next(self._numbers)
        names: dict[str, str] = {stream: f"{toxic.kind}-{number}-{stream}" for stream in toxic.streams}
        standing = Standing(toxic, proxies, {} if toxic.kind == DOWN else names)
        before = await self._prober.measure(toxic, proxies, names={})
        for server in dict.fromkeys(proxy.server for proxy in proxies):
            standing.since[server.node] = server.last
        try:
            for proxy in proxies:
                standing.connections[proxy.name] = await self._count(proxy)
                await self._add(standing, proxy)
            found = await self._prober.measure(toxic, proxies, names=standing.names)
            for way in found:
                if not way["affected"]:
                    raise NotLanded(f"a connection from {way['from']} to {way['to']} fares as before: {way['seen']}")
            await self._check_told(standing)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self._remove(standing)
            raise
        self._standing.append(standing)
        ways = [
            {**{k: v for k, v in now.items() if k != "affected"}, "before": was["seen"]}
            for was, now in zip(before, found, strict=True)
        ]
        return {"mechanism": "toxiproxy, embedded", "toxic": toxic.kind, "attributes": toxic.attributes, "ways": ways}

    async def cure(self, toxic: Toxic) -> JSON:
        """Remove, measure until each way is free, count who was hit."""
        standing = next(s for s in reversed(self._standing) if s.toxic == toxic)
        self._standing.remove(standing)
        if self.supervisor.gone:
            return {"ended": "with the lab"}
        expired = await self._remove(standing)
        free: list[JSON] = []
        with anyio.move_on_after(self._prober.heal_within):
            while not free or any(way["affected"] for way in free):
                free = await self._prober.measure(toxic, standing.proxies, names={})
        if not free or any(way["affected"] for way in free):
            raise NotLanded(f"a connection over link {toxic.link} still fares badly: {free}")
        ways = [{k: v for k, v in way.items() if k != "affected"} for way in free]
        more = {"expired": expired} if expired else {}
        return {"ways": ways, "met": await self._met(standing), **more}

    async def wait_met(self, toxic: Toxic) -> JSON:
        """Return when it has met a connection of the target."""
        standing = next(s for s in reversed(self._standing) if s.toxic == toxic)
        while not (met := await self._met(standing))["connections"]:  # noqa: ASYNC110 - it tells its log, and nobody
            await anyio.sleep(LOOK)
        return met

    async def _check_told(self, standing: Standing) -> None:
        """The proxy must say itself that each toxic hit a connection of ours: a slow machine looks much the same."""
        if standing.toxic.kind == "reset_peer":
            return  # what waits for its moment has hit nobody yet, and a reset is told by the kernel
        for proxy in standing.proxies:
            events = proxy.server.events(standing.since[proxy.server.node])
            told = {e["toxic"] for e in events if e["event"] == "toxic.hit" and e["proxy"] == proxy.name}
            if untold := set(standing.names.values()) - told:
                raise NotLanded(f"the proxy from {proxy.source} tells of no hit of {', '.join(sorted(untold))}")

    async def _add(self, standing: Standing, proxy: Proxy) -> None:
        toxic, path = standing.toxic, f"/proxies/{proxy.name}"
        if toxic.kind == DOWN:
            await proxy.server.call("PATCH", path, {"enabled": False})
        for stream, name in standing.names.items():
            wanted = {
                "name": name, "type": toxic.kind, "stream": stream, "toxicity": toxic.toxicity,
                "attributes": dict(toxic.attributes), "ttl_ms": math.ceil(toxic.ttl * 1000),
            }  # fmt: skip
            await proxy.server.call("POST", f"{path}/toxics", wanted)

    async def _remove(self, standing: Standing) -> list[str]:
        """The toxics that had gone by themselves. All are tried; the first trouble is told."""
        expired, troubles = [], []
        for proxy in standing.proxies:
            path = f"/proxies/{proxy.name}"
            try:
                if standing.toxic.kind == DOWN:
                    await proxy.server.call("PATCH", path, {"enabled": True})
                expired += [n for n in standing.names.values() if not await proxy.server.gone(f"{path}/toxics/{n}")]
            except NotLanded as error:
                troubles.append(error)
        if troubles:
            raise troubles[0]
        return expired

    async def _count(self, proxy: Proxy) -> int:
        sources = [self.recipe.addresses[proxy.source]]
        said = await self.supervisor.packets(
            "redirected", node=proxy.server.node, sources=sources, ports=list(proxy.ports)
        )
        return int(said["connections"])

    async def _met(self, standing: Standing) -> JSON:
        """Connections of the target that met it, all and by way."""
        by_way: dict[str, int] = {}
        size = 0
        for proxy in standing.proxies:
            events = proxy.server.events(standing.since[proxy.server.node])
            # Also those from before it: what the toxic finds of them is their end.
            opened = (e for e in proxy.server.events(0) if self._prober.made(e) and e["proxy"] == proxy.name)
            ours = {e["connection"] for e in opened}
            if standing.toxic.kind == DOWN:
                closed = [e for e in events if e["event"] == "connection.closed" and e["proxy"] == proxy.name]
                refused = await self._count(proxy) - standing.connections[proxy.name]
                found = refused + sum(e["connection"] not in ours for e in closed)
            else:
                theirs = [e for e in events if e.get("connection") not in ours]
                met, more = hits(theirs, proxy.name, set(standing.names.values()), self._prober.made)
                found, size = len(met), size + more
            by_way[proxy.source] = by_way.get(proxy.source, 0) + found
        return {"connections": sum(by_way.values()), "bytes": size, "by node": by_way}


def address(launch: Launch) -> str:
    """Of a Toxiproxy server that runs by itself; empty where there is none."""
    given = launch.spec.get("toxiproxy") or {}
    return os.environ.get(VARIABLE) or (given.get("address", "") if isinstance(given, Mapping) else "")


def named(faults: Sequence[Any]) -> list[str]:
    """The links that the faults of a run name."""
    mine = [fault for fault in faults if capability_of(type(fault)) is Capability]
    return list(dict.fromkeys(fault.link for fault in mine))


class StreamsFace(Face):
    """The target has Streams."""

    async def poison(self, toxic: Toxic) -> JSON:
        return await self.fitting(Streams).poison(toxic)

    async def wait_met(self, toxic: Toxic) -> JSON:
        return await self.fitting(Streams).wait_met(toxic)

    async def cure(self, toxic: Toxic) -> JSON:
        return await self.fitting(Streams).cure(toxic)


Streams.face = StreamsFace
