"""Every toxic on real sockets: that it hits, what the two ends see, and that its removal heals."""

from __future__ import annotations

import socket
import time
from contextlib import suppress

import pytest

from .harness import Kept, Server, echo, is_reset, receive, serving, upstream

pytestmark = pytest.mark.slow

DATA = bytes(range(256)) * 400  # 102,400 bytes


def test_noop_passes_all_and_is_no_hit(server: Server, echoing: int) -> None:
    proxy = server.proxy(echoing)
    proxy.add("noop")
    with proxy.connect() as client:
        client.sendall(DATA)
        assert receive(client, len(DATA)) == DATA
    proxy.await_event(event="connection.closed")
    assert proxy.events(event="toxic.hit") == []


@pytest.mark.parametrize("stream", ["upstream", "downstream"])
def test_latency_delays_a_round_trip_in_either_direction(server: Server, echoing: int, stream: str) -> None:
    proxy = server.proxy(echoing)
    proxy.add("latency", stream, latency=120)
    with proxy.connect() as client:
        began = time.monotonic()
        client.sendall(b"x")
        assert client.recv(1) == b"x"
        assert time.monotonic() - began >= 0.12
    hit = proxy.await_event(event="toxic.hit")
    assert (hit["toxic"], hit["action"], hit["bytes"], hit["connection"]) == (f"latency_{stream}", "delayed", 1, 1)


def test_removal_of_latency_passes_on_what_is_on_its_way(server: Server, echoing: int) -> None:
    proxy = server.proxy(echoing)
    proxy.add("latency", latency=3_600_000)
    with proxy.connect() as client:
        client.sendall(DATA)
        proxy.await_event(event="toxic.hit")
        proxy.remove("latency_downstream")
        assert receive(client, len(DATA)) == DATA
        assert proxy.await_event(event="toxic.total")["bytes"] <= len(DATA)


def test_latency_keeps_the_order_under_jitter(server: Server, echoing: int) -> None:
    proxy = server.proxy(echoing)
    proxy.add("latency", latency=20, jitter=20)
    with proxy.connect() as client:
        for at in range(0, len(DATA), 1024):
            client.sendall(DATA[at : at + 1024])
        assert receive(client, len(DATA)) == DATA


def test_an_update_is_in_force_on_open_connections(server: Server, echoing: int) -> None:
    proxy = server.proxy(echoing)
    proxy.add("latency", latency=0)
    with proxy.connect() as client:
        client.sendall(b"x")
        assert client.recv(1) == b"x"
        proxy.update("latency_downstream", attributes={"latency": 100})
        began = time.monotonic()
        client.sendall(b"x")
        assert client.recv(1) == b"x"
        assert time.monotonic() - began >= 0.1


def test_bandwidth_lets_no_more_through_than_its_rate(server: Server, echoing: int) -> None:
    proxy = server.proxy(echoing)
    proxy.add("bandwidth", rate=400)
    with proxy.connect() as client:
        began = time.monotonic()
        client.sendall(DATA)
        assert receive(client, len(DATA)) == DATA
        assert time.monotonic() - began >= len(DATA) / 400_000


def test_bandwidth_of_zero_stalls_and_removal_goes_on(server: Server, echoing: int) -> None:
    proxy = server.proxy(echoing)
    proxy.add("bandwidth", rate=0)
    with proxy.connect() as client:
        client.sendall(DATA)
        proxy.await_event(event="toxic.hit")
        client.setblocking(False)
        with pytest.raises(BlockingIOError):
            client.recv(1)
        client.settimeout(20)
        proxy.remove("bandwidth_downstream")
        assert receive(client, len(DATA)) == DATA


def test_a_new_rate_ends_a_stall(server: Server, echoing: int) -> None:
    proxy = server.proxy(echoing)
    proxy.add("bandwidth", rate=0)
    with proxy.connect() as client:
        client.sendall(DATA)
        proxy.await_event(event="toxic.hit")
        proxy.update("bandwidth_downstream", attributes={"rate": 100_000})
        assert receive(client, len(DATA)) == DATA


def test_slow_close_holds_the_end_back_but_not_the_data(server: Server) -> None:
    with upstream(lambda sock: sock.sendall(b"all")) as port:
        proxy = server.proxy(port)
        proxy.add("slow_close", delay=150)
        with proxy.connect() as client:
            assert receive(client, 3) == b"all"
            hit = proxy.await_event(event="toxic.hit")
            assert client.recv(1) == b""
            assert time.monotonic() - hit["t"] >= 0.149  # both ends read the same clock


def test_removal_of_slow_close_lets_the_end_go(server: Server) -> None:
    with upstream(lambda sock: sock.sendall(b"all")) as port:
        proxy = server.proxy(port)
        proxy.add("slow_close", delay=3_600_000)
        with proxy.connect() as client:
            proxy.await_event(event="toxic.hit")
            proxy.remove("slow_close_downstream")
            assert receive(client, 4) == b"all"


def test_timeout_drops_data_and_then_closes(server: Server) -> None:
    kept = Kept()
    with upstream(kept) as port:
        proxy = server.proxy(port)
        proxy.add("timeout", "upstream", timeout=150)
        with proxy.connect() as client:
            client.sendall(b"lost")
            assert client.recv(1) == b""
            assert kept.await_end() == "eof"
        assert kept.heard == b""
        hit, closed = proxy.await_event(event="toxic.hit"), proxy.await_event(event="connection.closed")
        assert (hit["action"], hit["bytes"]) == ("dropped", 4)
        assert closed["t"] - hit["t"] >= 0.149
        assert closed["how"] == "cut by toxic timeout_upstream"


def test_an_absolute_timeout_is_not_put_off_by_traffic(server: Server, echoing: int) -> None:
    proxy = server.proxy(echoing)
    proxy.add("timeout", "upstream", timeout=300, mode="absolute")
    with proxy.connect() as client:
        proxy.await_connections(1)
        client.settimeout(0.02)
        tries = 0
        while True:  # far more often than every 300 ms
            client.sendall(b"x")
            tries += 1
            try:
                assert client.recv(1) == b""
                break
            except TimeoutError:
                assert tries < 500
    total = proxy.await_event(event="toxic.total")
    opened, closed = proxy.events(event="connection.opened")[0], proxy.events(event="connection.closed")[0]
    assert closed["t"] - opened["t"] >= 0.3
    assert total["bytes"] > 1


def test_removal_of_a_timeout_closes_what_lost_bytes(server: Server, echoing: int) -> None:
    proxy = server.proxy(echoing)
    proxy.add("timeout", timeout=0)
    with proxy.connect() as client:
        client.sendall(b"lost")
        proxy.await_event(event="toxic.hit")
        proxy.remove("timeout_downstream")
        assert client.recv(1) == b""


def test_reset_peer_resets_both_ends_of_a_connection_that_was_open_before(server: Server) -> None:
    kept = Kept()
    with upstream(kept) as port:
        proxy = server.proxy(port)
        with proxy.connect() as client:
            client.sendall(b"before")
            kept.await_bytes(6)
            proxy.add("reset_peer", "upstream", timeout=10)
            client.sendall(b"after")
            assert is_reset(client)
            assert kept.await_end() == "reset"
        assert kept.heard == b"before"
        assert proxy.await_event(event="connection.closed")["how"] == "reset by toxic reset_peer_upstream"


def test_reset_peer_waits_for_traffic_unless_told_otherwise(server: Server, echoing: int) -> None:
    proxy = server.proxy(echoing)
    with proxy.connect() as client:
        proxy.await_connections(1)
        proxy.add("reset_peer")
        assert proxy.events(event="toxic.hit") == []
        assert len(proxy.connections()) == 1
        proxy.add("reset_peer", name="now", mode="always")
        assert is_reset(client)
        assert proxy.await_event(event="toxic.hit")["toxic"] == "now"


def test_slicer_sends_pieces_of_the_given_size(server: Server) -> None:
    kept = Kept()
    with upstream(kept) as port:
        proxy = server.proxy(port)
        proxy.add("slicer", "upstream", average_size=1000, size_variation=200, delay=2000)
        with proxy.connect() as client:
            client.sendall(DATA[:20_000])
            assert kept.await_bytes(20_000) == DATA[:20_000]
        # A reader that was kept waiting finds several pieces at once, but never half a one.
        assert len(kept.pieces) >= 2
        assert min(kept.pieces[:-1]) >= 800
        hit = proxy.await_event(event="toxic.hit")
        assert hit["action"] == "sliced"


@pytest.mark.parametrize("limit", [1, 10, 100_000])
def test_limit_data_passes_exactly_so_many_bytes(server: Server, echoing: int, limit: int) -> None:
    proxy = server.proxy(echoing)
    proxy.add("limit_data", bytes=limit)
    with proxy.connect() as client:
        client.sendall(DATA)
        assert receive(client, len(DATA)) == DATA[:limit]
    assert proxy.await_event(event="toxic.hit")["action"] == "closed"


def test_limit_data_of_zero_closes_at_the_first_data_and_not_before(server: Server, echoing: int) -> None:
    proxy = server.proxy(echoing)
    proxy.add("limit_data", bytes=0)
    with proxy.connect() as client:
        proxy.await_connections(1)
        assert proxy.events(event="toxic.hit") == []
        client.sendall(b"x")
        assert client.recv(1) == b""


def test_corrupt_flips_single_bits_and_the_same_ones_again_with_the_same_seed() -> None:
    seen = []
    for seed in ("1", "1", "2"):
        with upstream(echo) as port, serving("--seed", seed) as server:
            proxy = server.proxy(port)
            proxy.add("corrupt", flips_per_mb=200)
            with proxy.connect() as client:
                client.sendall(DATA)
                seen.append(receive(client, len(DATA)))
            flips = [a ^ b for a, b in zip(DATA, seen[-1], strict=True) if a != b]
            assert 2 <= len(flips) <= 60  # 20 are expected
            assert all(flip.bit_count() == 1 for flip in flips)
            assert proxy.await_event(event="toxic.total")["bytes"] == len(flips)
    assert seen[0] == seen[1] != seen[2]


def test_drop_after_goes_quiet_and_leaves_the_connection_open(server: Server, echoing: int) -> None:
    proxy = server.proxy(echoing)
    proxy.add("drop_after", bytes=10)
    with proxy.connect() as client:
        client.sendall(b"0123456789lost")
        assert receive(client, 10) == b"0123456789"
        assert proxy.await_event(event="toxic.hit")["bytes"] == 4
        client.sendall(b"more")
        client.settimeout(0.05)
        with pytest.raises(TimeoutError):
            client.recv(1)
        client.settimeout(20)
        proxy.remove("drop_after_downstream")
        assert client.recv(1) == b""


def fill(sock: socket.socket) -> int:
    """Send until nothing more is taken; how much was."""
    sock.setblocking(False)
    sent = 0
    with suppress(BlockingIOError):
        while True:
            sent += sock.send(bytes(65536))
    sock.setblocking(True)
    return sent


def test_a_blackhole_holds_all_back_and_loses_nothing(server: Server) -> None:
    kept = Kept()
    with upstream(kept) as port:
        proxy = server.proxy(port)
        with proxy.connect() as client:
            client.sendall(b"before")
            kept.await_bytes(6)
            proxy.add("blackhole", "upstream")
            assert proxy.events(event="toxic.hit") == []
            client.sendall(b"during")
            assert proxy.await_event(event="toxic.hit")["action"] == "held"
            assert kept.heard == b"before"
            sent = fill(client)  # the sender feels it
            proxy.remove("blackhole_upstream")
            kept.await_bytes(12 + sent)
        assert bytes(kept.heard) == b"beforeduring" + bytes(sent)


def test_packet_loss_stalls_the_stream_and_loses_nothing(server: Server, echoing: int) -> None:
    proxy = server.proxy(echoing)
    proxy.add("packet_loss", loss=50, rto=1)
    with proxy.connect() as client:
        client.sendall(DATA)
        assert receive(client, len(DATA)) == DATA
    assert proxy.await_event(event="toxic.hit")["action"] == "delayed"


def test_toxics_of_one_stream_work_one_after_the_other(server: Server, echoing: int) -> None:
    proxy = server.proxy(echoing)
    proxy.add("latency", latency=80, name="a")
    proxy.add("limit_data", bytes=5, name="b")
    proxy.add("latency", latency=80, name="c")
    with proxy.connect() as client:
        began = time.monotonic()
        client.sendall(b"0123456789")
        assert receive(client, 10) == b"01234"
        assert time.monotonic() - began >= 0.16


def test_a_toxic_that_is_removed_from_the_middle_keeps_the_order(server: Server, echoing: int) -> None:
    proxy = server.proxy(echoing)
    for name in ("a", "b", "c"):
        proxy.add("latency", latency=3_600_000, name=name)
    with proxy.connect() as client:
        for name, part in (("a", b"first"), ("b", b"second"), ("c", b"third")):
            client.sendall(part)
            proxy.await_event(event="toxic.hit", toxic="a" if name == "a" else "b" if name == "b" else "c")
            proxy.remove(name)
        assert receive(client, 16) == b"firstsecondthird"


def test_a_time_to_live_heals_without_anybody(server: Server, echoing: int) -> None:
    proxy = server.proxy(echoing)
    shown = proxy.add("latency", latency=3_600_000, ttl_ms=100)
    assert shown["ttl_ms"] == 100
    with proxy.connect() as client:
        client.sendall(b"x")
        assert client.recv(1) == b"x"
    added, removed = proxy.events(event="toxic.added")[0], proxy.events(event="toxic.removed")[0]
    assert removed["why"] == "ttl"
    assert removed["t"] - added["t"] >= 0.099
    assert server.call("GET", f"{proxy.path}/toxics") == []


def test_a_time_to_live_can_be_renewed_and_taken_back(server: Server, echoing: int) -> None:
    proxy = server.proxy(echoing)
    proxy.add("noop", ttl_ms=200)
    proxy.add("noop", name="mark", ttl_ms=300)
    assert proxy.update("noop_downstream", ttl_ms=0).get("ttl_ms") is None
    proxy.await_event(event="toxic.removed", toxic="mark")
    assert [toxic["name"] for toxic in server.call("GET", f"{proxy.path}/toxics")] == ["noop_downstream"]


def test_a_renewed_time_to_live_throws_no_dice_again() -> None:
    seen = []
    for renewed in (False, True):
        with upstream(echo) as port, serving("--seed", "1") as server:
            proxy = server.proxy(port)
            proxy.add("corrupt", flips_per_mb=200)
            with proxy.connect() as client:
                client.sendall(DATA[:50_000])
                seen.append(receive(client, 50_000))
                if renewed:
                    proxy.update("corrupt_downstream", ttl_ms=60_000)
                client.sendall(DATA[50_000:])
                seen[-1] += receive(client, len(DATA) - 50_000)
    assert seen[0] == seen[1] != DATA


def hits(server: Server, port: int, *, neighbour: bool = False) -> set[int]:
    """The numbers of those of 60 connections that a toxic of toxicity 0.3 hits."""
    proxy = server.proxy(port, "share")
    proxy.add("limit_data", bytes=0, toxicity=0.3)
    clients = [proxy.connect() for _ in range(60)]
    proxy.await_connections(60)
    if neighbour:
        for _ in range(3):
            proxy.add("noop")
            proxy.remove("noop_downstream")
    for client in clients:
        client.sendall(b"x")
    answers = [client.recv(1) for client in clients]
    for client in clients:
        client.close()
    found = {event["connection"] for event in proxy.events(event="toxic.hit")}
    assert sum(answer == b"" for answer in answers) == len(found)
    return found


def test_toxicity_hits_a_share_of_the_connections_and_the_same_ones_with_the_same_seed(echoing: int) -> None:
    found = []
    for seed, neighbour in (("1", False), ("1", True), ("2", False)):
        with serving("--seed", seed) as server:
            found.append(hits(server, echoing, neighbour=neighbour))
    assert 6 <= len(found[0]) <= 32  # 18 are expected
    assert found[0] == found[1] != found[2]


def test_a_new_toxicity_compares_with_the_same_draw(server: Server, echoing: int) -> None:
    proxy = server.proxy(echoing)
    proxy.add("limit_data", bytes=0, toxicity=0)
    with proxy.connect() as client:
        client.sendall(b"x")
        assert client.recv(1) == b"x"
        proxy.update("limit_data_downstream", toxicity=1)
        client.sendall(b"x")
        assert client.recv(1) == b""


def test_the_other_direction_is_not_hit(server: Server, echoing: int) -> None:
    with upstream(lambda sock: sock.sendall(b"hello")) as port:
        proxy = server.proxy(port)
        proxy.add("timeout", "upstream", timeout=0)
        with proxy.connect() as client:
            assert receive(client, 5) == b"hello"


def test_an_idle_toxic_set_costs_no_connection(server: Server, echoing: int) -> None:
    """Toxics come and go while data flows, and nothing is lost or doubled."""
    proxy = server.proxy(echoing)
    with proxy.connect() as client:
        for turn in range(20):
            proxy.add(("latency", "slicer", "bandwidth")[turn % 3], name="t", **settings(turn))
            client.sendall(DATA[:5000])
            if turn % 2:
                proxy.remove("t")
            assert receive(client, 5000) == DATA[:5000]
            if not turn % 2:
                proxy.remove("t")


def settings(turn: int) -> dict[str, int]:
    return ({"latency": 1}, {"average_size": 700, "delay": 50}, {"rate": 10_000})[turn % 3]


def test_a_socket_that_was_reset_while_held_is_noticed(server: Server) -> None:
    kept = Kept()
    with upstream(kept) as port:
        proxy = server.proxy(port)
        proxy.add("blackhole", "upstream")
        client = proxy.connect()
        client.sendall(b"x")
        proxy.await_event(event="toxic.hit")
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        client.close()
        assert kept.await_end() == "reset"
        assert proxy.await_event(event="connection.closed")["how"] == "ECONNRESET from the client"
