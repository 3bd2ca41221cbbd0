"""HTTP/1.1 on asyncio: requests in, answers out. The protocol itself is h11's."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable
from http import HTTPStatus

import h11

from chaos.toxiproxy.api import JSON, Answer, Call

LARGEST = 16 * 1024 * 1024  # bytes of a body

_ids = itertools.count(1)


class Http(asyncio.Protocol):
    """One client of the API."""

    def __init__(self, answer: Callable[[Call], Answer]) -> None:
        self._answer = answer
        self._http = h11.Connection(h11.SERVER)
        self._request: h11.Request | None = None
        self._body = b""
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._http.receive_data(data)
        self._go_on()

    def eof_received(self) -> bool:
        self._http.receive_data(b"")
        self._go_on()
        return False

    def _go_on(self) -> None:
        """Answer all requests that are complete."""
        while not self._transport.is_closing():
            try:
                event = self._http.next_event()
            except h11.RemoteProtocolError as error:
                return self._refuse(error.error_status_hint, str(error))
            if event is h11.NEED_DATA:
                if self._http.they_are_waiting_for_100_continue:
                    self._send(h11.InformationalResponse(status_code=100, headers=[]))
                return None
            if isinstance(event, h11.Request):
                self._request, self._body = event, b""
            elif isinstance(event, h11.Data):
                self._body += event.data
                if len(self._body) > LARGEST:
                    return self._refuse(413, "the body is too large")
            elif isinstance(event, h11.EndOfMessage):
                self._reply()
            else:  # closed, or waiting for an answer that was sent
                return self._transport.close()
        return None

    def _reply(self) -> None:
        assert self._request is not None
        request = self._request
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in request.headers}
        call = Call(request.method.decode(), request.target.decode("latin-1"), headers, self._body)
        try:
            answer = self._answer(call)
        except Exception as error:  # a bug of ours is an answer too: a caller that hangs cannot heal
            asyncio.get_running_loop().call_exception_handler({"message": "a call failed", "exception": error})
            answer = Answer(500, _error(500, f"internal error: {error!r}"), JSON)
        self._write(answer)
        if self._http.our_state is h11.MUST_CLOSE:
            self._transport.close()
        else:
            self._http.start_next_cycle()

    def _refuse(self, status: int, text: str) -> None:
        """What is no HTTP."""
        if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self._write(Answer(status, _error(status, text), JSON, (("Connection", "close"),)))
        self._transport.close()

    def _write(self, answer: Answer) -> None:
        headers = [("X-Toxiproxy-Request-Id", f"{next(_ids):x}"), *answer.headers]
        if answer.content_type is not None:
            headers.append(("Content-Type", answer.content_type))
        if answer.status != 204:
            headers.append(("Content-Length", str(len(answer.body))))
        reason = HTTPStatus(answer.status).phrase
        parts: list[h11.Event] = [h11.Response(status_code=answer.status, headers=headers, reason=reason.encode())]
        if answer.body and not (self._request is not None and self._request.method == b"HEAD"):
            parts.append(h11.Data(data=answer.body))
        self._send(*parts, h11.EndOfMessage())

    def _send(self, *events: h11.Event) -> None:
        self._transport.write(b"".join(self._http.send(event) or b"" for event in events))


def _error(status: int, text: str) -> bytes:
    return json.dumps({"error": text, "status": status}).encode() + b"\n"
