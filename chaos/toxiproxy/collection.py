"""All proxies of a server: making, changing, replacing them. What cannot listen is refused before anything changes."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from dataclasses import dataclass

from chaos.toxiproxy import addresses, errors
from chaos.toxiproxy.errors import ApiError
from chaos.toxiproxy.metrics import Counts
from chaos.toxiproxy.proxy import Proxy, Shared


@dataclass(frozen=True)
class Wanted:
    """A proxy as a caller describes it."""

    name: str
    upstream: str
    listen: str = addresses.ANYWHERE_LOCAL
    enabled: bool = True


@dataclass
class _Step:
    """What `populate` will do for one entry: keep `proxy`, or start it in place of `old`."""

    proxy: Proxy
    old: Proxy | None = None
    listener: socket.socket | None = None
    inherits: bool = False  # the listener of `old`


class Collection:
    """The proxies by name, in order of creation."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._proxies: dict[str, Proxy] = {}

    def all(self) -> list[Proxy]:
        return list(self._proxies.values())

    def get(self, name: str) -> Proxy:
        if name not in self._proxies:
            raise errors.proxy_not_found()
        return self._proxies[name]

    def counts(self) -> Counts:
        """Those of closed connections and of live ones."""
        live = Counts()
        for proxy in self._proxies.values():
            proxy.count_live(live)
        return self._shared.counts.plus(live)

    def create(self, wanted: Wanted) -> Proxy:
        if wanted.name in self._proxies:
            raise errors.proxy_exists()
        proxy = self._made(wanted)
        if wanted.enabled:
            proxy.start(addresses.bind(wanted.listen))
        self._proxies[wanted.name] = proxy
        return proxy

    def delete(self, proxy: Proxy) -> None:
        proxy.clear("deleted")
        proxy.stop("deleted")
        del self._proxies[proxy.name]

    def update(self, proxy: Proxy, *, listen: str, upstream: str, enabled: bool) -> None:
        """A new address drops the connections; toxics stay. When the new one cannot listen, nothing has changed."""
        moves = _differs(proxy.listen, listen)
        if not moves and upstream == proxy.upstream and enabled == proxy.enabled:
            return
        if not enabled:
            proxy.stop("disabled")
        elif proxy.enabled and not moves:
            if (listener := proxy.hand_over("updated")) is not None:
                proxy.upstream = upstream
                proxy.start(listener)
        else:
            listener = self._claim(proxy, listen)
            proxy.stop("updated")
            proxy.upstream = upstream
            proxy.start(listener)
        proxy.upstream = upstream
        if moves and not enabled:
            proxy.listen = listen

    def _claim(self, proxy: Proxy, listen: str) -> socket.socket:
        """Listen at the new address; where only the proxy's own listener is in the way, let that go first."""
        try:
            return addresses.bind(listen)
        except ApiError as error:
            if not (addresses.in_use(error) and proxy.enabled and _port(proxy.listen) == _port(listen)):
                raise
            before = proxy.listen
            proxy.stop("updated")
            try:
                return addresses.bind(listen)
            except ApiError:
                proxy.start(addresses.bind(before))
                raise

    def populate(self, all_wanted: Iterable[Wanted]) -> list[Proxy]:
        """Create, or replace where listen or upstream differ. All or nothing: first all are bound, then swapped."""
        steps: list[_Step] = []
        try:
            latest = dict(self._proxies)
            for wanted in all_wanted:
                step = self._plan(wanted, latest.get(wanted.name))
                latest[wanted.name] = step.proxy
                steps.append(step)
        except ApiError:
            for step in steps:
                if step.listener is not None:
                    step.listener.close()
            raise
        for step in steps:
            self._take(step)
        return [step.proxy for step in steps]

    def _plan(self, wanted: Wanted, old: Proxy | None) -> _Step:
        if old is None:
            return _Step(self._made(wanted), listener=addresses.bind(wanted.listen) if wanted.enabled else None)
        moves = _differs(old.listen, wanted.listen)
        if not moves and old.upstream == wanted.upstream:
            return _Step(old)
        step = _Step(self._made(wanted), old=old, inherits=not moves and old.enabled and wanted.enabled)
        if wanted.enabled and not step.inherits:
            step.listener = addresses.bind(wanted.listen)
        return step

    def _take(self, step: _Step) -> None:
        if step.old is not None:
            step.old.clear("replaced")
            listener = step.old.hand_over("replaced")
            if step.inherits:
                step.listener = listener
            elif listener is not None:
                listener.close()
        if step.listener is not None:
            step.proxy.start(step.listener)
        self._proxies[step.proxy.name] = step.proxy

    def reset(self) -> None:
        """Start what is disabled and remove all toxics. One that cannot listen keeps nobody from healing the others."""
        refused: ApiError | None = None
        for proxy in self._proxies.values():
            if not proxy.enabled:
                try:
                    proxy.start(addresses.bind(proxy.listen))
                except ApiError as error:
                    refused = refused or error
                    continue
            proxy.clear("reset")
        if refused is not None:
            raise refused

    def close(self) -> None:
        for proxy in self._proxies.values():
            proxy.stop("the server ends")

    def _made(self, wanted: Wanted) -> Proxy:
        return Proxy(self._shared, wanted.name, wanted.listen, wanted.upstream)


def _differs(old: str, new: str) -> bool:
    try:
        return not addresses.same(old, new)
    except ValueError as error:
        raise errors.cannot_listen(str(error)) from error


def _port(listen: str) -> str:
    return listen.rpartition(":")[2]
