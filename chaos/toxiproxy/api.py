"""The HTTP API: which call does what, and what it answers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import parse_qs, unquote_to_bytes

from chaos.toxiproxy import decode, metrics
from chaos.toxiproxy.addresses import ANYWHERE_LOCAL
from chaos.toxiproxy.collection import Collection
from chaos.toxiproxy.errors import ApiError
from chaos.toxiproxy.events import Log

VERSION = "2.12.0+chaos"  # the API that is spoken, and who speaks it
JSON = "application/json"
TEXT = "text/plain; charset=utf-8"


class Call(NamedTuple):
    """One request."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


class Answer(NamedTuple):
    """One response; without a content type there is no such header."""

    status: int
    body: bytes = b""
    content_type: str | None = None
    headers: tuple[tuple[str, str], ...] = ()


Handler: TypeAlias = Callable[..., Answer]


class Api:
    """Answers calls. Every answer is ready at once: nothing here waits for data, a reader or an upstream."""

    def __init__(self, collection: Collection, log: Log, *, proxy_metrics: bool) -> None:
        self._collection = collection
        self._log = log
        change = {"POST": self._update_proxy, "PATCH": self._update_proxy}
        change_toxic = {"POST": self._update_toxic, "PATCH": self._update_toxic}
        routes: dict[str, dict[str, Handler]] = {
            "/version": {"GET": self._version},
            "/reset": {"POST": self._reset},
            "/populate": {"POST": self._populate},
            "/events": {"GET": self._events},
            "/proxies": {"GET": self._proxies, "POST": self._create_proxy},
            "/proxies/{}": {"GET": self._proxy, "DELETE": self._delete_proxy, **change},
            "/proxies/{}/connections": {"GET": self._connections},
            "/proxies/{}/toxics": {"GET": self._toxics, "POST": self._create_toxic},
            "/proxies/{}/toxics/{}": {"GET": self._toxic, "DELETE": self._delete_toxic, **change_toxic},
        }
        if proxy_metrics:
            routes["/metrics"] = {"*": self._metrics}
        self._routes = [(re.compile(path.replace("{}", "([^/]+)")), methods) for path, methods in routes.items()]

    def answer(self, call: Call) -> Answer:
        """Never raises for what a caller can do wrong."""
        raw, _, query = call.target.partition("?")
        path = unquote_to_bytes(raw).decode("utf-8", "replace")
        if (clean := _clean(path)) != path:
            return Answer(301, headers=(("Location", clean),))
        found = next(((m, methods) for pattern, methods in self._routes if (m := pattern.fullmatch(path))), None)
        if found is None:
            return Answer(404, b"404 page not found\n", TEXT, (("X-Content-Type-Options", "nosniff"),))
        match, methods = found
        handler = methods.get(call.method) or methods.get("*")
        if handler is None:
            return Answer(405)
        if call.headers.get("user-agent", "").startswith("Mozilla/"):
            return Answer(403, b"User agent not allowed\n", TEXT)  # a web page must not command this server
        try:
            return handler(call, query, *match.groups())
        except ApiError as error:
            return _json(error.status, {"error": error.text, "status": error.status}, newline=True)

    # --- the server --------------------------------------------------------------------------------------------------

    def _version(self, call: Call, query: str) -> Answer:
        return Answer(200, json.dumps({"version": VERSION}).encode() + b"\n", "application/json;charset=utf-8")

    def _reset(self, call: Call, query: str) -> Answer:
        self._collection.reset()
        return Answer(204)

    def _populate(self, call: Call, query: str) -> Answer:
        try:
            made = self._collection.populate(decode.all_wanted(call.body))
        except ApiError as error:
            return _json(error.status, {"error": error.text, "status": error.status, "proxies": None})
        return _json(201, {"proxies": [proxy.shown() for proxy in made] or None})

    def _metrics(self, call: Call, query: str) -> Answer:
        return Answer(200, self._collection.counts().text().encode(), metrics.CONTENT_TYPE)

    def _events(self, call: Call, query: str) -> Answer:
        """Lines of JSON; `?since=N` leaves out those up to number N."""
        since = parse_qs(query).get("since", ["0"])[-1]
        if not since.isdecimal():
            raise ApiError(400, f"invalid since {since}: a number of an event")
        return Answer(200, "".join(self._log.since(int(since))).encode(), "application/jsonl")

    # --- proxies -----------------------------------------------------------------------------------------------------

    def _proxies(self, call: Call, query: str) -> Answer:
        return _json(200, {proxy.name: proxy.shown() for proxy in self._collection.all()})

    def _create_proxy(self, call: Call, query: str) -> Answer:
        return _json(201, self._collection.create(decode.wanted(call.body)).shown())

    def _proxy(self, call: Call, query: str, name: str) -> Answer:
        return _json(200, self._collection.get(name).shown())

    def _update_proxy(self, call: Call, query: str, name: str) -> Answer:
        proxy = self._collection.get(name)
        fields = decode.members(decode.first_value(call.body), "a proxy")
        decode.field(fields, "name", "")
        self._collection.update(
            proxy,
            listen=decode.field(fields, "listen", proxy.listen) or ANYWHERE_LOCAL,
            upstream=decode.field(fields, "upstream", proxy.upstream),
            enabled=decode.field(fields, "enabled", proxy.enabled),
        )
        return _json(200, proxy.shown())

    def _delete_proxy(self, call: Call, query: str, name: str) -> Answer:
        self._collection.delete(self._collection.get(name))
        return Answer(204)

    def _connections(self, call: Call, query: str, name: str) -> Answer:
        return _json(200, [connection.shown() for connection in self._collection.get(name).connections.values()])

    # --- toxics ------------------------------------------------------------------------------------------------------

    def _toxics(self, call: Call, query: str, name: str) -> Answer:
        return _json(200, [toxic.shown() for toxic in self._collection.get(name).chain()])

    def _create_toxic(self, call: Call, query: str, name: str) -> Answer:
        proxy = self._collection.get(name)
        toxic = decode.toxic(call.body, {other.name for other in proxy.toxics})
        proxy.add(toxic)
        return _json(200, toxic.shown())

    def _toxic(self, call: Call, query: str, name: str, toxic: str) -> Answer:
        return _json(200, self._collection.get(name).toxic(toxic).shown())

    def _update_toxic(self, call: Call, query: str, name: str, toxic_name: str) -> Answer:
        proxy = self._collection.get(name)
        toxic = proxy.toxic(toxic_name)
        fields = decode.members(decode.first_value(call.body), "a toxic")
        values, toxicity = decode.values(toxic.kind, fields), decode.number(fields, "toxicity", toxic.toxicity)
        decode.check_toxicity(toxicity)
        ttl = decode.ttl(fields)
        if ttl is not None:
            proxy.expire(toxic, ttl)
        proxy.change(toxic, values, toxicity)
        return _json(200, toxic.shown())

    def _delete_toxic(self, call: Call, query: str, name: str, toxic: str) -> Answer:
        proxy = self._collection.get(name)
        proxy.remove(proxy.toxic(toxic), "api")
        return Answer(204)


def _clean(path: str) -> str:
    """The path without double slashes and dots."""
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            parts = parts[:-1]
        elif part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(parts) + ("/" if parts and path.endswith("/") else "")


def _json(status: int, value: Any, *, newline: bool = False) -> Answer:
    return Answer(status, json.dumps(value).encode() + b"\n" * newline, JSON)
