"""An HTTP proxy in front of one service: reads each request as a whole, and does what the rules say with it."""

from __future__ import annotations

import socket
import struct
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import anyio
import h11

from chaos.api import JSON
from chaos.exchanges import ExchangeRule

KEPT = 20  # hits of a rule that are told at its end
HOP = {b"connection", b"keep-alive", b"transfer-encoding", b"expect", b"proxy-connection"}
Connect = Callable[[], Awaitable[socket.socket]]


class Gone(Exception):
    """The other end has closed, or speaks no HTTP."""


class Standing:
    """Implements Ruled."""

    def __init__(self, rule: ExchangeRule, remove: Callable[[Standing], None]) -> None:
        self.rule = rule
        self.lifted = anyio.Event()
        self._remove = remove
        self._matched = 0
        self._before: Callable[[], None] = lambda: None
        self._hits: list[JSON] = []
        self._hit = anyio.Event()

    def takes(self, method: str, path: str) -> bool:
        """Whether this request is hit; counts it."""
        if not self.rule.matches(method, path):
            return False
        self._matched += 1
        return self.rule.due(self._matched)

    def about_to(self) -> None:
        """The effect comes next."""
        before, self._before = self._before, lambda: None
        before()

    def note(self, **about: Any) -> None:
        """What was done to a request."""
        self._hits.append(about)
        self._hit.set()

    async def first(self, before: Callable[[], None]) -> JSON:
        self._before = before
        await self._hit.wait()
        return {"mechanism": "http proxy of the harness", "link": self.rule.link, **self._hits[0]}

    async def lift(self) -> JSON:
        self._remove(self)
        self.lifted.set()
        return {"hits": len(self._hits), "requests": self._hits[:KEPT]}


class Wire:
    """One end of an HTTP connection on a socket that does not block."""

    def __init__(self, stream: socket.socket, role: type[h11.CLIENT] | type[h11.SERVER]) -> None:
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.stream, self.http = stream, h11.Connection(role)

    async def message(self) -> tuple[Any, bytes]:
        """The next request or answer with its body; Gone at the end."""
        head, body = None, b""
        while True:
            event = await self._event()
            if isinstance(event, h11.Request | h11.Response):
                head = event
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                return head, body
            elif isinstance(event, h11.ConnectionClosed) or event is h11.PAUSED:
                raise Gone

    async def _event(self) -> Any:
        while True:
            try:
                event = self.http.next_event()
                if event is not h11.NEED_DATA:
                    return event
                if self.http.they_are_waiting_for_100_continue:
                    await self.send(h11.InformationalResponse(status_code=100, headers=[]))
                await anyio.wait_readable(self.stream)
                self.http.receive_data(self.stream.recv(1 << 17))
            except BlockingIOError:  # woken for nothing
                continue
            except (OSError, h11.RemoteProtocolError) as error:
                raise Gone from error

    async def send(self, *events: Any) -> None:
        """Send these parts of a message; Gone when nobody takes them."""
        data = memoryview(b"".join(self.http.send(event) or b"" for event in events))
        while data:
            try:
                await anyio.wait_writable(self.stream)
                data = data[self.stream.send(data) :]
            except BlockingIOError:
                continue
            except OSError as error:
                raise Gone from error

    def reset(self) -> None:
        """End it with a RST: whoever waits for an answer gets an error, and cannot know."""
        self.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.stream.close()


class HttpProxy:
    """Serves connections; `connect` gives one to the service behind."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self.rules: list[Standing] = []

    def rule(self, rule: ExchangeRule) -> Standing:
        """A rule that stands from now on."""
        standing = Standing(rule, self._remove)
        self.rules.append(standing)
        return standing

    def _remove(self, standing: Standing) -> None:
        if standing in self.rules:
            self.rules.remove(standing)

    async def serve(self, stream: socket.socket) -> None:
        """One connection of a client, to its end."""
        with stream:
            client = Wire(stream, h11.SERVER)
            try:
                while True:
                    request, body = await client.message()
                    answer = await self._exchange(client, request, body)
                    if answer is None:
                        return
                    head, content = answer
                    await client.send(head, *([h11.Data(data=content)] if content else []), h11.EndOfMessage())
                    if client.http.our_state is not h11.DONE or client.http.their_state is not h11.DONE:
                        return
                    client.http.start_next_cycle()
            except (Gone, h11.ProtocolError):  # either end closed, or broke its word
                return

    async def _exchange(self, client: Wire, request: h11.Request, body: bytes) -> tuple[h11.Response, bytes] | None:
        """The answer for the client, None once there is nobody to answer."""
        method, path = request.method.decode(), request.target.decode()
        hit = next((standing for standing in tuple(self.rules) if standing.takes(method, path)), None)
        about = {"method": method, "path": path, "bytes": len(body)}
        if hit is not None and hit.rule.action == "refuse":
            hit.about_to()
            hit.note(**about, status=hit.rule.status)
            content = b"" if method == "HEAD" else hit.rule.body.encode()
            headers = [(b"content-type", b"application/xml"), (b"content-length", str(len(content)).encode())]
            return h11.Response(status_code=hit.rule.status, headers=headers), content
        if hit is not None and hit.rule.action == "delay":
            hit.about_to()
            began = anyio.current_time()
            with anyio.move_on_after(hit.rule.delay):
                await hit.lifted.wait()
            hit.note(**about, delayed=round(anyio.current_time() - began, 3))
        answer, content = await self._pass_on(request, body)
        if hit is not None and hit.rule.action == "lose" and 200 <= answer.status_code < 300:
            hit.about_to()
            hit.note(**about, status=answer.status_code, answer="lost")
            client.reset()
            return None
        headers = _end_to_end(answer.headers)
        if method != "HEAD" and not any(name == b"content-length" for name, _ in headers):
            headers.append((b"content-length", str(len(content)).encode()))
        return h11.Response(status_code=answer.status_code, headers=headers, reason=answer.reason), content

    async def _pass_on(self, request: h11.Request, body: bytes) -> tuple[h11.Response, bytes]:
        try:
            stream = await self._connect()
        except OSError as error:
            raise Gone from error
        with stream:
            service = Wire(stream, h11.CLIENT)
            headers = [h for h in _end_to_end(request.headers) if h[0] != b"content-length"]
            headers += [(b"content-length", str(len(body)).encode()), (b"connection", b"close")]
            again = h11.Request(method=request.method, target=request.target, headers=headers)
            await service.send(again, *([h11.Data(data=body)] if body else []), h11.EndOfMessage())
            return await service.message()


def _end_to_end(headers: Sequence[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Without what concerns one connection only."""
    return [(name, value) for name, value in headers if name.lower() not in HOP]
