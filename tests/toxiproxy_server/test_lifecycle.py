"""Proxies and their connections: what opens, what closes, and how the two ends learn of it."""

from __future__ import annotations

import json
import socket
import time
from contextlib import ExitStack

import pytest

from .harness import Kept, Server, awaited, echo, is_reset, receive, serving, upstream

pytestmark = pytest.mark.slow

RESET = b"\x01\0\0\0\0\0\0\0"  # struct linger: on, 0 seconds


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


def test_disabling_ends_connections_with_fin_and_refuses_new_ones(server: Server, echoing: int) -> None:
    proxy = server.proxy(echoing)
    proxy.add("latency", latency=1)
    with proxy.connect() as client:
        client.sendall(b"x")
        assert client.recv(1) == b"x"
        server.call("POST", proxy.path, {"enabled": False})
        assert client.recv(1) == b""
    with pytest.raises(ConnectionRefusedError):
        proxy.connect()
    again = server.call("POST", proxy.path, {"enabled": True})
    assert [toxic["name"] for toxic in again["toxics"]] == ["latency_downstream"]
    with proxy.connect() as client:
        client.sendall(b"x")
        assert client.recv(1) == b"x"


def test_a_half_closed_connection_still_gets_its_answer(server: Server) -> None:
    def count(sock: socket.socket) -> None:
        size = 0
        while data := sock.recv(65536):
            size += len(data)
        sock.sendall(str(size).encode())

    with upstream(count) as port, server.proxy(port).connect() as client:
        client.sendall(bytes(100_000))
        client.shutdown(socket.SHUT_WR)
        assert receive(client, 100) == b"100000"


def test_the_upstream_may_end_first(server: Server) -> None:
    heard: list[bytes] = []

    def greet(sock: socket.socket) -> None:
        sock.sendall(b"hello")
        sock.shutdown(socket.SHUT_WR)
        heard.append(receive(sock, 3))

    with upstream(greet) as port, server.proxy(port).connect() as client:
        assert receive(client, 100) == b"hello"
        client.sendall(b"bye")
        assert awaited(lambda: heard, "the answer") == [b"bye"]


def test_a_reset_of_the_client_reaches_the_upstream_as_a_reset(server: Server) -> None:
    kept = Kept()
    with upstream(kept) as port:
        client = server.proxy(port).connect()
        client.sendall(b"x")
        kept.await_bytes(1)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        client.close()
        assert kept.await_end() == "reset"


def test_a_reset_of_the_upstream_reaches_the_client_as_a_reset(server: Server) -> None:
    def slam(sock: socket.socket) -> None:
        sock.recv(1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)

    with upstream(slam) as port:
        proxy = server.proxy(port)
        with proxy.connect() as client:
            client.sendall(b"x")
            assert is_reset(client)
        assert proxy.await_event(event="connection.closed")["how"] == "ECONNRESET from the upstream"


def test_a_refused_upstream_gives_the_client_an_end_without_data(server: Server) -> None:
    proxy = server.proxy(closed_port())
    with proxy.connect() as client:
        client.sendall(b"x")
        assert client.recv(1) == b""
    assert proxy.await_event(event="connection.refused")["reason"] == "connection refused"


def test_an_upstream_by_name_is_looked_up(server: Server, echoing: int) -> None:
    with server.proxy(f"localhost:{echoing}").connect() as client:
        client.sendall(b"x")
        assert client.recv(1) == b"x"


@pytest.mark.parametrize("address", ["not an address", "127.0.0.1", "host.invalid:80"])
def test_an_upstream_that_is_no_address_is_a_refused_connection(server: Server, address: str) -> None:
    proxy = server.proxy(address)
    with proxy.connect() as client:
        assert client.recv(1) == b""
    assert proxy.await_event(event="connection.refused")["reason"]


def test_an_upstream_that_does_not_answer_holds_up_nobody_and_is_given_up(echoing: int) -> None:
    with ExitStack() as stack:
        full = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(3):  # its queue takes no more, and it accepts nothing
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(full.getsockname())
        server = stack.enter_context(serving("--dial-within", "1.5"))
        proxy = server.proxy(full.getsockname()[1])
        waiting = [stack.enter_context(proxy.connect()) for _ in range(3)]
        awaited(lambda: [c["state"] for c in proxy.connections()] == ["dialling"] * 3, "three at once")
        server.call("PATCH", proxy.path, {"upstream": f"127.0.0.1:{echoing}"})
        assert [client.recv(1) for client in waiting] == [b""] * 3
        server.call("PATCH", proxy.path, {"upstream": f"127.0.0.1:{full.getsockname()[1]}"})
        late = stack.enter_context(proxy.connect())
        assert late.recv(1) == b""
        assert proxy.await_event(event="connection.refused")["reason"] == "no connection within 1.5s"


def test_a_new_upstream_drops_connections_and_keeps_toxics(server: Server, echoing: int) -> None:
    with upstream(lambda sock: sock.sendall(b"other")) as other:
        proxy = server.proxy(echoing)
        proxy.add("latency", latency=1)
        with proxy.connect() as client:
            client.sendall(b"x")
            assert client.recv(1) == b"x"
            after = server.call("PATCH", proxy.path, {"upstream": f"127.0.0.1:{other}"})
            assert client.recv(1) == b""
        assert after["listen"] == f"127.0.0.1:{proxy.port}"
        assert len(after["toxics"]) == 1
        with proxy.connect() as client:
            assert receive(client, 5) == b"other"


def test_an_update_that_cannot_listen_changes_nothing(server: Server, echoing: int) -> None:
    proxy = server.proxy(echoing)
    with proxy.connect() as client:
        client.sendall(b"x")
        assert client.recv(1) == b"x"
        for listen in (f"127.0.0.1:{server.port}", f":{server.port}"):
            status, text = server.request("PATCH", proxy.path, {"listen": listen, "upstream": "127.0.0.1:1"})
            assert (status, json.loads(text)["status"]) == (500, 500)
        client.sendall(b"y")
        assert client.recv(1) == b"y"
    about = server.call("GET", proxy.path)
    assert (about["enabled"], about["listen"]) == (True, f"127.0.0.1:{proxy.port}")


def test_a_proxy_may_widen_its_own_address(server: Server, echoing: int) -> None:
    proxy = server.proxy(echoing)
    wide = server.call("PATCH", proxy.path, {"listen": f"0.0.0.0:{proxy.port}"})
    assert (wide["enabled"], wide["listen"]) == (True, f"0.0.0.0:{proxy.port}")
    with proxy.connect() as client:
        client.sendall(b"x")
        assert client.recv(1) == b"x"


def test_populate_replaces_without_a_moment_in_which_nobody_listens(server: Server, echoing: int) -> None:
    proxy = server.proxy(closed_port(), "swapped")
    proxy.add("noop")
    entry = {"name": "swapped", "listen": f"127.0.0.1:{proxy.port}", "upstream": f"127.0.0.1:{echoing}"}
    (after,) = server.call("POST", "/populate", [entry])["proxies"]
    assert (after["enabled"], after["listen"], after["toxics"]) == (True, entry["listen"], [])
    with proxy.connect() as client:
        client.sendall(b"x")
        assert client.recv(1) == b"x"


def test_populate_is_all_or_nothing(server: Server, echoing: int) -> None:
    proxy = server.proxy(echoing, "stays")
    with proxy.connect() as client:
        client.sendall(b"x")
        assert client.recv(1) == b"x"
        entries = [
            {"name": "stays", "listen": "127.0.0.1:0", "upstream": "127.0.0.1:1"},
            {"name": "new", "listen": "127.0.0.1:0", "upstream": "127.0.0.1:1"},
            {"name": "cannot", "listen": f"127.0.0.1:{server.port}", "upstream": "127.0.0.1:1"},
        ]
        assert server.request("POST", "/populate", entries)[0] == 500
        client.sendall(b"y")
        assert client.recv(1) == b"y"
    assert server.request("GET", "/proxies/new")[0] == 404


def test_a_reset_heals_the_others_where_one_cannot_start(echoing: int) -> None:
    with serving() as server:
        blocked, other = server.proxy(echoing), server.proxy(echoing)
        server.call("PATCH", blocked.path, {"enabled": False, "listen": f"127.0.0.1:{server.port}"})
        other.add("timeout")
        assert server.request("POST", "/reset")[0] == 500
        assert server.call("GET", other.path)["toxics"] == []


def test_deleting_closes_all_and_forgets(server: Server, echoing: int) -> None:
    proxy = server.proxy(echoing)
    with proxy.connect() as client:
        proxy.await_connections(1)
        server.call("DELETE", proxy.path)
        assert client.recv(1) == b""
    with pytest.raises(ConnectionRefusedError):
        proxy.connect()
    assert proxy.events(event="connection.closed")[0]["how"] == "deleted"


def test_connections_show_live_bytes_and_hits(server: Server, echoing: int) -> None:
    proxy = server.proxy(echoing)
    proxy.add("latency", latency=1)
    with proxy.connect() as client:
        client.sendall(b"12345")
        assert receive(client, 5) == b"12345"
        (about,) = proxy.connections()
        assert about["client"] == f"127.0.0.1:{client.getsockname()[1]}"
        assert about["upstream"] == about["downstream"] == {"received": 5, "sent": 5}
        (toxic,) = about["toxics"]
        assert (toxic["name"], toxic["bytes"]) == ("latency_downstream", 5)
    closed = proxy.await_event(event="connection.closed")
    assert (closed["connection"], closed["upstream"]) == (1, {"received": 5, "sent": 5})
    assert closed["how"] == "eof from both, last from the upstream"


def test_metrics_count_while_a_connection_is_open_and_after(server: Server, echoing: int) -> None:
    proxy = server.proxy(echoing)
    label = (
        f'direction="upstream",listener="127.0.0.1:{proxy.port}",proxy="{proxy.name}",upstream="127.0.0.1:{echoing}"'
    )
    wanted = f"toxiproxy_proxy_received_bytes_total{{{label}}} 5\n"
    with proxy.connect() as client:
        client.sendall(b"12345")
        assert receive(client, 5) == b"12345"
        assert wanted in server.request("GET", "/metrics")[1]
    proxy.await_event(event="connection.closed")
    assert wanted in server.request("GET", "/metrics")[1]


def test_events_are_numbered_and_can_be_read_on(server: Server, echoing: int) -> None:
    proxy = server.proxy(echoing)
    before = server.events()[-1]["seq"]
    with proxy.connect() as client:
        client.sendall(b"x")
        client.recv(1)
    proxy.await_event(event="connection.closed")
    later = server.events(before)
    assert [event["seq"] for event in later] == list(range(before + 1, before + 1 + len(later)))
    assert [event["event"] for event in later] == ["connection.opened", "connection.closed"]
    assert abs(later[-1]["t"] - time.monotonic()) < 60  # the same clock as ours


def test_hundreds_of_connections_at_once(server: Server) -> None:
    with upstream(echo) as port, ExitStack() as stack:
        proxy = server.proxy(port)
        clients = [stack.enter_context(proxy.connect()) for _ in range(200)]
        for number, client in enumerate(clients):
            client.sendall(b"%03d" % number)
        assert [receive(client, 3) for client in clients] == [b"%03d" % n for n in range(200)]
