"""HTTP links, led through a proxy of the harness by rules of the lab: the target knows nothing of it.

The proxy listens in the node of the service, with sockets of that node that the harness holds.
"""

from __future__ import annotations

import socket
from contextlib import AsyncExitStack
from functools import partial

import anyio
from anyio.abc import TaskGroup

from chaos.api import capability_of
from chaos.drivers.process.fittings.base import Face, Fitting
from chaos.drivers.process.fittings.wire import Wire
from chaos.drivers.process.http_proxy import HttpProxy
from chaos.drivers.process.supervisor import Supervisor
from chaos.errors import NotLanded, Unsupported
from chaos.exchanges import ExchangeRule, Exchanges, Ruled


class ExchangesFace(Face):
    """Implements Exchanges."""

    async def rule(self, rule: ExchangeRule) -> Ruled:
        return await self.fitting(ExchangesFitting).rule(rule)


class ExchangesFitting(Fitting):
    """One proxy for each link that this run's faults name."""

    name = "exchanges"
    capability = Exchanges
    face = ExchangesFace

    async def set_up(self, supervisor: Supervisor, tasks: TaskGroup) -> str:
        self._open = AsyncExitStack()
        self._proxies: dict[str, HttpProxy] = {}
        if "links" not in supervisor.mechanisms:
            raise supervisor.linkless("without the lab nothing leads connections")
        try:
            await supervisor.packets("try", what="streams")
            for name in self._named():
                self._proxies[name] = await self._lead(name, supervisor, tasks)
        except NotLanded as error:
            raise Unsupported(f"the kernel leads no connections: {error}", "a kernel with CONFIG_NFT_REDIR") from error
        return "http proxy of the harness, by nftables redirect"

    def _named(self) -> list[str]:
        """The links that faults of this kind name."""
        needs = ((capability_of(type(fault)), fault) for fault in self.recipe.launch.faults)
        names = (getattr(fault, "link", None) for need, fault in needs if need and Exchanges in need.__mro__)
        return list(dict.fromkeys(name for name in names if name))

    async def _lead(self, name: str, supervisor: Supervisor, tasks: TaskGroup) -> HttpProxy:
        spec, addresses = self.recipe.spec, self.recipe.addresses
        slots = spec.slots()
        link = spec.links.get(name)
        if link is None:
            raise Unsupported(f"the target file has no link {name} (known: {', '.join(spec.links) or 'none'})")
        targets, ports = link.targets(slots), link.ports
        sources = [node for node in link.sources(slots) if node not in targets]
        if len(targets) != 1 or len(ports) != 1 or not sources:
            raise Unsupported(
                f"link {name} leads from {sources} to {list(targets)}: one service on a node apart is meant"
            )
        (target,), (port,) = targets, ports
        wire = Wire(supervisor, addresses)
        listener = await self._open.enter_async_context(wire.listener(target))
        proxy = HttpProxy(partial(wire.connect, target, (addresses[target], port)))
        tasks.start_soon(_accept, listener, proxy)
        await supervisor.packets(
            "redirect", node=target, sources=[addresses[node] for node in sources], ports=[port],
            to=listener.getsockname()[1],
        )  # fmt: skip
        return proxy

    async def rule(self, rule: ExchangeRule) -> Ruled:
        """See `chaos.exchanges.Exchanges`."""
        return self._proxies[rule.link].rule(rule)

    async def tear_down(self) -> None:
        await self._open.aclose()


async def _accept(listener: socket.socket, proxy: HttpProxy) -> None:
    """Until cancelled, or the listener is closed."""
    async with anyio.create_task_group() as connections:
        while True:
            try:
                await anyio.wait_readable(listener)
                stream, _ = listener.accept()
            except BlockingIOError:
                continue
            except (OSError, ValueError, anyio.ClosedResourceError):
                break
            stream.setblocking(False)
            connections.start_soon(proxy.serve, stream)
        connections.cancel_scope.cancel()
