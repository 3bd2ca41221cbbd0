"""Clients that were not written for this server: the field's Python library, and one plain HTTP connection."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any

import pytest

from .harness import PATIENCE, Server, receive

pytestmark = pytest.mark.slow


@pytest.fixture
def library(server: Server) -> Iterator[Any]:
    """toxiproxy-python, which keeps the server's address in its classes."""
    toxiproxy = pytest.importorskip("toxiproxy", reason="needs toxiproxy-python: pip install 'mlchaos[dev]'")
    client = toxiproxy.Toxiproxy()
    client.update_api_consumer("127.0.0.1", server.port)
    yield client
    client.destroy_all()


def connect(proxy: Any) -> socket.socket:
    host, _, port = proxy.listen.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=PATIENCE)


def test_the_library_makes_a_proxy_and_hurts_it(library: Any, echoing: int) -> None:
    assert library.running()
    assert b"2.12" in library.version()
    proxy = library.create(upstream=f"127.0.0.1:{echoing}", name="made")
    assert proxy.enabled
    assert set(library.proxies()) == {"made"}
    proxy.add_toxic(type="latency", attributes={"latency": 100, "jitter": 0})
    assert proxy.get_toxic("latency_downstream").attributes == {"latency": 100, "jitter": 0}
    with connect(proxy) as client:
        began = time.monotonic()
        client.sendall(b"x")
        assert client.recv(1) == b"x"
        assert time.monotonic() - began >= 0.1
    proxy.destroy_toxic("latency_downstream")
    assert proxy.toxics() == {}


def test_the_library_takes_a_proxy_down_and_up(library: Any, echoing: int) -> None:
    proxy = library.create(upstream=f"127.0.0.1:{echoing}", name="down", listen="127.0.0.1:0")
    with connect(proxy) as client:
        with proxy.down():
            assert client.recv(1) == b""
            with pytest.raises(ConnectionRefusedError):
                connect(library.get_proxy("down"))
        with connect(library.get_proxy("down")) as again:
            again.sendall(b"x")
            assert receive(again, 1) == b"x"


def test_the_library_populates_resets_and_sees_its_errors(library: Any, echoing: int) -> None:
    from toxiproxy.exceptions import InvalidToxic, NotFound, ProxyExists

    entry = {"name": "one", "upstream": f"127.0.0.1:{echoing}", "listen": "127.0.0.1:0"}
    (proxy,) = library.populate([entry])
    proxy.add_toxic(type="timeout", attributes={"timeout": 0}, toxicity=0.5, stream="upstream")
    with pytest.raises(ProxyExists):
        library.create(upstream="127.0.0.1:1", name="one")
    with pytest.raises(InvalidToxic):
        proxy.add_toxic(type="no such")
    with pytest.raises(NotFound):
        proxy.destroy_toxic("no such")
    library.reset()
    assert library.get_proxy("one").toxics() == {}
    library.destroy(proxy)
    assert library.get_proxy("one") is None


def test_a_plain_connection_is_kept_open_over_many_calls(server: Server, echoing: int) -> None:
    client = HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)

    def call(method: str, path: str, body: Any = None) -> tuple[int, str]:
        client.request(method, path, None if body is None else json.dumps(body))
        answer = client.getresponse()
        assert answer.getheader("X-Toxiproxy-Request-Id")
        return answer.status, answer.read().decode()

    assert call("POST", "/proxies", {"name": "plain", "upstream": f"127.0.0.1:{echoing}"})[0] == 201
    own = client.sock
    assert call("POST", "/proxies/plain/toxics", {"type": "latency"})[0] == 200
    assert call("GET", "/nope")[0] == 404
    assert call("HEAD", "/nope") == (404, "")
    assert call("PUT", "/proxies")[0] == 405
    assert call("DELETE", "/proxies/plain/toxics/latency_downstream") == (204, "")
    assert call("DELETE", "/proxies/plain") == (204, "")
    assert client.sock is own
    client.close()


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET /version HTTP/1.0\r\n\r\n", b"200"),
        (b"GET /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", b"200"),
        (b"no http at all\r\n\r\n", b"400"),
        (b"POST /reset HTTP/1.1\r\nHost: x\r\nContent-Length: nonsense\r\n\r\n", b"400"),
        (b"POST /reset HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n" + bytes(20 << 20), b"413"),
    ],
)
def test_what_closes_the_connection_is_answered_first(server: Server, sent: bytes, status: bytes) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as client:
        try:
            client.sendall(sent)
        except OSError:
            assert status == b"413"  # no more of it is taken
        answer = receive(client, 13)
        assert answer[9:12] == status


def test_calls_sent_in_one_go_are_answered_in_order(server: Server) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as client:
        ask = b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n"
        client.sendall(ask + ask.replace(b"/version", b"/nope") + ask.replace(b"GET", b"PUT"))
        client.shutdown(socket.SHUT_WR)
        answer = receive(client, 1 << 16).decode()
        assert [line.split()[1] for line in answer.splitlines() if line.startswith("HTTP/1.1")] == ["200", "404", "405"]


def test_a_client_that_asks_may_send_its_body(server: Server) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as client:
        body = b'{"name": "asked", "upstream": "127.0.0.1:1"}'
        head = b"POST /proxies HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body)
        client.sendall(head)
        assert receive(client, 12) == b"HTTP/1.1 100"
        client.sendall(body)
        assert b"HTTP/1.1 201" in receive(client, 60)
    server.call("DELETE", "/proxies/asked")
