"""The embedded proxy beside a direct connection, and a Toxiproxy server where `TOXIPROXY_SERVER` names its binary.

All run in turn, several rounds, on the same two cores: how a proxy compares with no proxy depends on where its threads
run, so only ours against the real server, measured in the same minute, has a goal. `python -m tests.bench.toxiproxy`
is the upstream of all.
"""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from .figures import Figure, median, percentile
from .place import Place
from .processes import BenchError, await_true, cpu, python, started

ROUNDS = 5
ECHOES, CONNECTS, CLIENTS, SECONDS = 4000, 300, 200, 0.8
FLOOD = 64 * 1024


@dataclass(frozen=True)
class Way:
    """One way to the upstream."""

    name: str
    echo: int  # port
    sink: int
    source: int
    api: int = 0
    pid: int = 0


def measure(place: Place) -> Iterator[Figure]:
    """Costs without toxics, then how exact the toxics are, then what the API takes."""
    with ExitStack() as stack:
        affinity = os.sched_getaffinity(0)
        stack.callback(os.sched_setaffinity, 0, affinity)
        os.sched_setaffinity(0, set(sorted(affinity)[:2]))
        ways = _ways(place.scratch("toxiproxy"), stack)
        yield from _costs(ways)
        ours = ways[1]
        yield from _exactness(ours)
        yield from _control(ours)


def _costs(ways: list[Way]) -> Iterator[Figure]:
    found: dict[tuple[str, str], list[float]] = {}
    for _ in range(ROUNDS):
        for way in ways:
            for test in (echo, connects, stream, many):
                for what, value in test(way).items():
                    found.setdefault((way.name, what), []).append(value)
    units = {what: what.rpartition(", ")[2] for _, what in found}
    for what, unit in units.items():
        values = {way.name: median(found[way.name, what]) for way in ways if (way.name, what) in found}
        name, note = f"proxy: {what.rpartition(', ')[0]}", f"median of {ROUNDS} rounds"
        if "direct" in values:
            yield Figure(
                what=name, unit=unit, ours=values["ours"], beside=values["direct"], against="direct", note=note
            )
        if "real" in values:
            yield Figure(
                what=f"{name}, against the real server", unit=unit, ours=values["ours"], beside=values["real"],
                against="Toxiproxy", bound=1, of_beside=True, note=note,
            )  # fmt: skip


# --- the processes ---------------------------------------------------------------------------------------------------


def _ways(folder: Path, stack: ExitStack) -> list[Way]:
    """Direct, ours, and the real server where it is named. All are ready to be used."""
    upstream = subprocess.Popen(python("-m", __spec__.name), stdout=subprocess.PIPE, text=True)
    stack.callback(_end, upstream)
    assert upstream.stdout is not None
    ways = [Way("direct", *map(int, upstream.stdout.readline().split()))]
    command = python("-m", "chaos.toxiproxy", "--host", "127.0.0.1", "--port", "0")
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    stack.callback(_end, server)
    assert server.stdout is not None
    api = int(json.loads(server.stdout.readline())["listening"].rpartition(":")[2])
    ways.append(_proxied("ours", api, ways[0], server.pid))
    if binary := os.environ.get("TOXIPROXY_SERVER"):
        api = _free_port()
        real = stack.enter_context(started([binary, "-host", "127.0.0.1", "-port", str(api)], folder=folder))
        await_true(lambda: _listens(api), f"{binary} listens", 10)
        ways.append(_proxied("real", api, ways[0], real.pid))
    return ways


def _proxied(name: str, api: int, direct: Way, pid: int) -> Way:
    ports = []
    for kind, port in (("echo", direct.echo), ("sink", direct.sink), ("source", direct.source)):
        about = {"name": kind, "listen": "127.0.0.1:0", "upstream": f"127.0.0.1:{port}"}
        ports.append(int(call(api, "POST", "/proxies", about)["listen"].rpartition(":")[2]))
    return Way(name, ports[0], ports[1], ports[2], api, pid)


def call(api: int, method: str, path: str, body: Any = None) -> Any:
    client = HTTPConnection("127.0.0.1", api, timeout=20)
    client.request(method, path, None if body is None else json.dumps(body))
    answer = client.getresponse()
    text = answer.read()
    client.close()
    if answer.status >= 300:
        raise BenchError(f"{method} {path}: {answer.status} {text.decode()}")
    return json.loads(text) if text else None


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


def _listens(port: int) -> bool:
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0


def _connect(port: int) -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", port), timeout=20)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


# --- without toxics --------------------------------------------------------------------------------------------------


def echo(way: Way) -> dict[str, float]:
    """One byte there and back, over and over."""
    with _connect(way.echo) as sock:
        times = [_timed(lambda: _round_trip(sock)) for _ in range(ECHOES)][ECHOES // 10 :]
    return {"echo p50, µs": median(times) * 1e6, "echo p99, µs": percentile(times, 0.99) * 1e6}


def connects(way: Way) -> dict[str, float]:
    """Connect, one byte there and back, close."""

    def once() -> None:
        with _connect(way.echo) as sock:
            _round_trip(sock)

    return {"connect and echo p50, µs": median([_timed(once) for _ in range(CONNECTS)]) * 1e6}


def stream(way: Way) -> dict[str, float]:
    """One connection, as fast as it goes, until the upstream has confirmed the last byte."""
    block, sent, spent = bytes(256 * 1024), 0, cpu(way.pid)
    with _connect(way.sink) as sock:
        began = time.perf_counter()
        while time.perf_counter() - began < SECONDS:
            sock.sendall(block)
            sent += len(block)
        seconds = _confirmed(sock, sent, began)
    found = {"one stream, ms per 100 MB": seconds * 1000 / (sent / 1e8)}
    if way.pid:
        found["CPU of one stream, ms per 100 MB"] = (cpu(way.pid) - spent) * 1000 / (sent / 1e8)
    return found


def many(way: Way) -> dict[str, float]:
    """200 connections, each with a message of 100 bytes on its way all the time."""
    message, spent = bytes(100), cpu(way.pid)
    with ExitStack() as stack:
        socks = {s.fileno(): s for s in (stack.enter_context(_connect(way.echo)) for _ in range(CLIENTS))}
        poll = select.epoll()
        stack.callback(poll.close)
        since: dict[int, float] = {}
        times: list[float] = []
        began = time.perf_counter()
        for number, sock in socks.items():
            poll.register(number, select.EPOLLIN)
            since[number] = time.perf_counter()
            sock.sendall(message)
        while time.perf_counter() - began < SECONDS:
            for number, _ in poll.poll(1):
                socks[number].recv(1000)
                now = time.perf_counter()
                times.append(now - since[number])
                since[number] = now
                socks[number].sendall(message)
        seconds = time.perf_counter() - began
    found = {"200 connections, µs per round trip": seconds * 1e6 / len(times)}
    if way.pid:
        found["CPU of 200 connections, µs per round trip"] = (cpu(way.pid) - spent) * 1e6 / len(times)
    return found


def _round_trip(sock: socket.socket) -> None:
    sock.sendall(b"x")
    if sock.recv(1) != b"x":
        raise BenchError("the echo has ended")


def _timed(what: Callable[[], object]) -> float:
    began = time.perf_counter()
    what()
    return time.perf_counter() - began


def _confirmed(sock: socket.socket, sent: int, began: float) -> float:
    """Seconds until the sink has said that it has got all."""
    sock.shutdown(socket.SHUT_WR)
    sock.settimeout(20)
    answer = sock.recv(100)
    # The real server has no half-close: it ends both ways, and the sink's word is lost with them.
    if answer and int(answer) != sent:
        raise BenchError(f"{sent} bytes were sent and {answer.decode()} came")
    return time.perf_counter() - began


# --- with toxics -----------------------------------------------------------------------------------------------------


def _exactness(way: Way) -> Iterator[Figure]:
    toxics = "/proxies/echo/toxics"
    for latency in (1, 5, 20, 100):
        call(way.api, "POST", toxics, {"type": "latency", "attributes": {"latency": latency}})
        with _connect(way.echo) as sock:
            times = [_timed(lambda sock=sock: _round_trip(sock)) for _ in range(max(20, 400 // latency))]  # type: ignore[misc]
        call(way.api, "DELETE", f"{toxics}/latency_downstream")
        yield Figure(
            what=f"proxy: latency {latency} ms, p50 above it", unit="ms", bound=0.5,
            ours=median(times) * 1000 - latency, note=f"p99 {percentile(times, 0.99) * 1000 - latency:+.2f}",
        )  # fmt: skip
    for rate, bound in ((100, 1.0), (1000, 1.0), (10_000, 1.0), (100_000, 10.0)):
        yield Figure(
            what=f"proxy: bandwidth {rate:,} KB/s, off by", unit="%", ours=_off(way, rate), bound=bound,
            note="median of 3 streams of a second",
        )  # fmt: skip


def _off(way: Way, rate: int) -> float:
    """How many per cent the rate of a stream is off, once it flows: what a buffer takes at first is not counted."""
    errors = []
    for _ in range(3):
        attributes = {"type": "bandwidth", "stream": "upstream", "attributes": {"rate": rate}}
        call(way.api, "POST", "/proxies/sink/toxics", attributes)
        with _connect(way.sink) as sock:
            size = rate * 1000
            began = time.perf_counter()
            sock.sendall(bytes(size))
            errors.append(abs(_confirmed(sock, size, began) - 1) * 100)
        call(way.api, "DELETE", "/proxies/sink/toxics/bandwidth_upstream")
    return median(errors)


def _control(way: Way) -> Iterator[Figure]:
    client = HTTPConnection("127.0.0.1", way.api, timeout=20)

    def ask(method: str, path: str, body: str | None = None) -> None:
        client.request(method, path, body)
        client.getresponse().read()

    def pair() -> None:
        ask("POST", "/proxies/echo/toxics", '{"type": "latency", "attributes": {"latency": 1}}')
        ask("DELETE", "/proxies/echo/toxics/latency_downstream")

    with _connect(way.echo) as sock:
        _round_trip(sock)
        times = [_timed(pair) for _ in range(300)]
        note = "on one connection, with one client open"
        yield Figure(
            what="proxy: add and delete a toxic, p50", unit="ms", ours=median(times) * 1000, bound=1, note=note
        )
    for what, method, path in (
        ("removal of a toxic", "DELETE", "/proxies/source/toxics/latency_downstream"),
        ("a reset", "POST", "/reset"),
    ):
        worst = max(_stuck(way, lambda method=method, path=path: ask(method, path)) for _ in range(5))  # type: ignore[misc]
        yield Figure(
            what=f"proxy: {what} with a stuck reader", unit="ms", ours=worst * 1000, bound=100, note="the worst of 5"
        )
    client.close()


def _stuck(way: Way, heal: Callable[[], None]) -> float:
    """A client that never reads what floods it, behind a latency toxic; how long the heal takes."""
    call(way.api, "POST", "/proxies/source/toxics", {"type": "latency", "attributes": {"latency": 10}})
    with _connect(way.source):
        time.sleep(0.3)  # by then all buffers are full, whoever the server is
        return _timed(heal)


# --- the upstream ----------------------------------------------------------------------------------------------------


def main() -> None:
    """Echo on one port, count on the second, flood on the third, until killed."""
    echoing, counting, flooding = (socket.create_server(("127.0.0.1", 0), backlog=1024) for _ in range(3))
    print(*(listener.getsockname()[1] for listener in (echoing, counting, flooding)), flush=True)
    for listener, serve in ((counting, _count), (flooding, _flood)):
        threading.Thread(target=_serve_all, args=(listener, serve), daemon=True).start()
    poll, socks, buffer = select.epoll(), {}, bytearray(FLOOD)
    view = memoryview(buffer)
    poll.register(echoing.fileno(), select.EPOLLIN)
    while True:
        for number, _ in poll.poll():
            if number == echoing.fileno():
                sock = echoing.accept()[0]
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                socks[sock.fileno()] = sock
                poll.register(sock.fileno(), select.EPOLLIN)
                continue
            size = 0
            with suppress(OSError):
                if size := socks[number].recv_into(buffer):
                    socks[number].sendall(view[:size])
            if not size:
                socks.pop(number).close()


def _serve_all(listener: socket.socket, serve: Callable[[socket.socket], None]) -> None:
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()


def _flood(sock: socket.socket) -> None:
    with sock, suppress(OSError):
        sock.sendall(bytes(1 << 26))


def _count(sock: socket.socket) -> None:
    buffer, size = bytearray(1 << 20), 0
    with sock:
        while got := sock.recv_into(buffer):
            size += got
        sock.sendall(str(size).encode())


if __name__ == "__main__":
    main()
