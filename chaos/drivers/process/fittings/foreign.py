"""Links through a Toxiproxy server that runs by itself: the target connects to its proxies, which have names there.

Driven by `toxiproxy-python`, whose address is one for the whole process and whose calls have no time limit: so one
server a run, and each call in a thread that is given up when it takes too long. What stands there outlives a harness
that is killed, so each toxic is owed first, and a guardian removes it.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from chaos.api import JSON, Launch, Member, Undo
from chaos.drivers.process.fittings.base import Face, Fitting
from chaos.drivers.process.fittings.proxies import hits
from chaos.drivers.process.fittings.sibling import Sibling
from chaos.drivers.process.fittings.sockets import connected
from chaos.drivers.process.fittings.streams import DOWN, address, named
from chaos.drivers.process.spec import Program
from chaos.drivers.process.supervisor import Supervisor
from chaos.errors import NotLanded, Unsupported
from chaos.ways import Streams as Capability
from chaos.ways import Toxic

CALL_WITHIN = 5.0  # seconds
LOOK = 0.05
BY_KERNEL = "connections of members with the proxy, as the kernel lists them: this server keeps no log of hits"

T = TypeVar("T")


@dataclass(eq=False)
class Standing:
    """A toxic on one proxy, and on the sibling by which it is measured."""

    toxic: Toxic
    proxy: Any
    sibling: Sibling | None
    names: list[str]
    since: int
    before: list[str] = field(default_factory=list)  # connections that members had when it was taken down
    settled: list[Callable[[], Awaitable[None]]] = field(default_factory=list)


class Foreign(Fitting):
    """The proxies of a server whose address is given."""

    name = "streams"
    capability = Capability

    def __init__(self, recipe: Any, stage: Any) -> None:
        super().__init__(recipe, stage)
        self.address = address(recipe.launch)
        self._proxies: dict[str, Any] = {}  # by link
        self._standing: list[Standing] = []
        self._numbers = itertools.count(1)
        self._server: Any = None
        self._logs = False
        self._pids: dict[int, None] = {}  # of members, as they came

    @classmethod
    def wanted(cls, launch: Launch) -> bool:
        return bool(address(launch)) and super().wanted(launch)

    async def set_up(self, supervisor: Supervisor, tasks: TaskGroup) -> str:
        if self.recipe.launch.lab:
            raise Unsupported(
                f"the Toxiproxy at {self.address} cannot be reached from inside the lab: run with --no-lab, or give no "
                "address, and a server is started in the lab"
            )
        host, _, port = self.address.rpartition(":")
        if not host or not port.isdecimal():
            raise Unsupported(f"`{self.address}` is no address of a Toxiproxy: host:port")
        try:
            from toxiproxy import Toxiproxy
        except ImportError as error:
            raise Unsupported("toxiproxy-python is not installed (pip install 'mlchaos[network]')") from error
        self._server = Toxiproxy()
        self._server.update_api_consumer(host, int(port))
        try:
            version = json.loads(await self.call(self._server.version) or b"{}").get("version", "")
            self._logs = await self._last() >= 0
            for link in named(self.recipe.launch.faults):
                self._proxies[link] = await self._find(link)
        except NotLanded as error:
            raise Unsupported(str(error)) from error
        if not version:
            raise Unsupported(f"nobody answers at {self.address}")
        return f"toxiproxy {version} at {self.address}"

    async def _find(self, link: str) -> Any:
        links = self.recipe.spec.links
        if link not in links:
            raise Unsupported(f"the target file has no link {link} (known: {', '.join(links) or 'none'})")
        name = links[link].proxy
        proxy = await self.call(lambda: self._server.get_proxy(name)) if name else None
        if proxy is None:
            raise Unsupported(
                f"link {link} needs `proxy`, the name of a proxy at {self.address}; it has {name or 'none'}"
            )
        return proxy

    async def started(self, program: Program, pid: int) -> None:
        self._pids[pid] = None

    def met(self, member: Member) -> None:
        self._pids[member.pid] = None

    async def poison(self, toxic: Toxic) -> JSON:
        """Measure on a sibling with the same toxic, then add it to the link's proxy."""
        proxy = self._proxies[toxic.link]
        everyone = set(self.recipe.spec.links[toxic.link].sources(self.recipe.spec.slots()))
        if missing := everyone - set(toxic.nodes):
            more = ", ".join(sorted(missing))
            raise NotLanded(f"proxy {proxy.name} serves all who connect over link {toxic.link}: select {more} too")
        number = next(self._numbers)
        names = [f"{toxic.kind}-{number}-{stream}" for stream in toxic.streams]
        standing = Standing(toxic, proxy, None, names, max(await self._last(), 0))
        try:
            measured = await self._stand(standing, number)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self._undo(standing)
            raise
        self._standing.append(standing)
        about = {"mechanism": f"toxiproxy at {self.address}", "proxy": proxy.name, "toxic": toxic.kind}
        return {**about, "attributes": toxic.attributes, "ways": measured}

    async def _stand(self, standing: Standing, number: int) -> list[JSON]:
        toxic, proxy, path = standing.toxic, standing.proxy, f"http://{self.address}/proxies/{standing.proxy.name}"
        if toxic.kind == DOWN:
            undo = Undo(what=f"proxy {proxy.name} down", method="POST", url=f"http://{self.address}/reset")
            standing.settled.append(await self.stage.owe(undo))
            standing.before = connected(self._pids, _port(proxy))
            await self.call(proxy.disable)
            if await _accepts(proxy.listen):
                raise NotLanded(f"proxy {proxy.name} still accepts connections at {proxy.listen}")
            return [{"proxy": proxy.name, "seen": {"connection": "refused"}}]
        standing.sibling = sibling = Sibling(self.call, number)
        undo = Undo(what=f"proxy {sibling.name}", method="DELETE", url=f"http://{self.address}/proxies/{sibling.name}")
        standing.settled.append(await self.stage.owe(undo))
        host, _, port = self.address.rpartition(":")
        await sibling.open(self._server, host, int(port))
        before = await sibling.measure(toxic)
        for name, stream in zip(standing.names, toxic.streams, strict=True):
            await sibling.add(name, stream, toxic)
        found = await sibling.measure(toxic)
        for way in found:
            if not way["affected"]:
                raise NotLanded(f"a connection through {sibling.name} fares as before: {way['seen']}")
        for name, stream in zip(standing.names, toxic.streams, strict=True):
            undo = Undo(what=f"toxic {name} of proxy {proxy.name}", method="DELETE", url=f"{path}/toxics/{name}")
            standing.settled.append(await self.stage.owe(undo))
            await self.call(partial(_add, proxy, name, stream, toxic))
        return [
            {"measured on": sibling.name, "stream": now["stream"], "seen": now["seen"], "before": was["seen"]}
            for was, now in zip(before, found, strict=True)
        ]

    async def wait_met(self, toxic: Toxic) -> JSON:
        """Return when it has met a connection; NotLanded where that cannot be known."""
        standing = next(s for s in reversed(self._standing) if s.toxic == toxic)
        if toxic.kind == DOWN and not standing.before:
            raise NotLanded(f"no member was connected with proxy {standing.proxy.name}: whom it refused nobody knows")
        if not self._logs and toxic.toxicity < 1:
            raise NotLanded(f"the Toxiproxy at {self.address} does not tell which share of the connections was hit")
        while not (met := await self._met(standing))["connections"]:  # noqa: ASYNC110 - it tells its log, and nobody
            await anyio.sleep(LOOK)
        return met

    async def _met(self, standing: Standing) -> JSON:
        if standing.toxic.kind == DOWN or not self._logs:
            far = standing.before or connected(self._pids, _port(standing.proxy))
            return {"connections": len(far), "with": list(dict.fromkeys(far)), "by": BY_KERNEL}
        events = await self._events(standing.since)
        met, size = hits(events, standing.proxy.name, set(standing.names), lambda event: False)
        return {"connections": len(met), "bytes": size}

    async def cure(self, toxic: Toxic) -> JSON:
        """Undo it, see that the server has it no more, measure on the sibling that it is gone there as well."""
        standing = next(s for s in reversed(self._standing) if s.toxic == toxic)
        self._standing.remove(standing)
        met = await self._met(standing)
        return {**await self._undo(standing), "met": met}

    async def _undo(self, standing: Standing) -> JSON:
        proxy, sibling, said = standing.proxy, standing.sibling, JSON()
        if standing.toxic.kind == DOWN:
            await self.call(proxy.enable)
            if not await _accepts(proxy.listen):
                raise NotLanded(f"proxy {proxy.name} does not accept connections at {proxy.listen}")
            said = {"ways": [{"proxy": proxy.name, "seen": {"connection": "accepted"}}]}
        for name in standing.names:
            await self.call(partial(_remove, proxy, name))
        left = set(await self.call(proxy.toxics)) & set(standing.names)
        if left:
            raise NotLanded(f"proxy {proxy.name} still has {', '.join(sorted(left))}")
        if sibling is not None:
            for name in standing.names:
                await sibling.remove(name)
            free = await sibling.measure(standing.toxic) if sibling.stands else []
            said = {"ways": [{"measured on": sibling.name, "seen": way["seen"]} for way in free]}
            await sibling.close()
        for settled in standing.settled:
            await settled()
        return said

    async def call(self, ask: Callable[[], T]) -> T:
        """One blocking call of the library, for at most `CALL_WITHIN` seconds."""
        with anyio.move_on_after(CALL_WITHIN):
            try:
                return await to_thread.run_sync(ask, abandon_on_cancel=True)
            except (OSError, ValueError, KeyError) as error:  # those of requests are OSErrors
                raise NotLanded(f"the Toxiproxy at {self.address}: {error!r}") from error
            except Exception as error:  # the library makes its own from nothing but Exception
                raise NotLanded(f"the Toxiproxy at {self.address} refuses: {error}") from error
        raise NotLanded(f"the Toxiproxy at {self.address} does not answer within {CALL_WITHIN:g} s")

    async def _events(self, since: int) -> list[JSON]:
        from toxiproxy.api import APIConsumer

        answer = await self.call(lambda: APIConsumer.get("/events", params={"since": since}, timeout=CALL_WITHIN))
        return [json.loads(line) for line in answer.content.splitlines()]

    async def _last(self) -> int:
        """The number of the server's last event; -1 where it keeps no log."""
        try:
            return max((event["seq"] for event in await self._events(0)), default=0)
        except NotLanded:
            return -1


def _port(proxy: Any) -> int:
    return int(proxy.listen.rpartition(":")[2])


def _add(proxy: Any, name: str, stream: str, toxic: Toxic) -> None:
    proxy.add_toxic(
        type=toxic.kind, name=name, stream=stream, toxicity=toxic.toxicity, attributes=dict(toxic.attributes)
    )


def _remove(proxy: Any, name: str) -> None:
    """One that is not there is no trouble."""
    if proxy.get_toxic(name) is not None:
        proxy.destroy_toxic(name)


async def _accepts(listen: str) -> bool:
    host, _, port = listen.rpartition(":")
    try:
        with anyio.fail_after(CALL_WITHIN):
            stream = await anyio.connect_tcp("127.0.0.1" if host in ("", "[::]", "0.0.0.0") else host, int(port))
    except (OSError, TimeoutError):
        return False
    await stream.aclose()
    return True


class ForeignFace(Face):
    """The target has Streams."""

    async def poison(self, toxic: Toxic) -> JSON:
        return await self.fitting(Foreign).poison(toxic)

    async def wait_met(self, toxic: Toxic) -> JSON:
        return await self.fitting(Foreign).wait_met(toxic)

    async def cure(self, toxic: Toxic) -> JSON:
        return await self.fitting(Foreign).cure(toxic)


Foreign.face = ForeignFace
