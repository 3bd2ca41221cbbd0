"""A server of ours as a real process, and upstreams to put it in front of."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 20.0  # seconds until a test gives up on something that it awaits


class Server:
    """The server's API, as any client sees it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self.process = process
        self.said: dict[str, Any] = json.loads(process.stdout.readline() or "{}")
        assert self.said, "the server has said nothing"
        self.port = int(self.said["listening"].rpartition(":")[2])
        self._names = 0

    def request(self, method: str, path: str, body: Any = None) -> tuple[int, str]:
        client = HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            client.request(method, path, body if isinstance(body, str | None) else json.dumps(body))
            answer = client.getresponse()
            return answer.status, answer.read().decode()
        finally:
            client.close()

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """A call that must succeed."""
        status, text = self.request(method, path, body)
        assert status < 300, text
        return json.loads(text) if text else None

    def proxy(self, upstream: int | str, name: str = "") -> Proxy:
        self._names += 1
        at = upstream if isinstance(upstream, str) else f"127.0.0.1:{upstream}"
        return Proxy(self, self.call("POST", "/proxies", {"name": name or f"p{self._names}", "upstream": at}))

    def events(self, since: int = 0, **fields: Any) -> list[dict[str, Any]]:
        """Those that have these fields."""
        lines = self.request("GET", f"/events?since={since}")[1].splitlines()
        found = [json.loads(line) for line in lines]
        return [e for e in found if all(e.get(key) == value for key, value in fields.items())]

    def await_event(self, **fields: Any) -> dict[str, Any]:
        """The first event with these fields, once there is one."""
        found: list[dict[str, Any]] = awaited(lambda: self.events(**fields), f"an event {fields}")
        return found[0]


class Proxy:
    """One proxy of a server."""

    def __init__(self, server: Server, about: dict[str, Any]) -> None:
        self.server = server
        self.name: str = about["name"]
        self.path = f"/proxies/{self.name}"
        self.port = int(about["listen"].rpartition(":")[2])

    def connect(self) -> socket.socket:
        sock = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock

    def add(self, kind: str, stream: str = "downstream", /, **more: Any) -> dict[str, Any]:
        """A toxic; what the API does not know as a field of its own is an attribute."""
        own: dict[str, Any] = {key: more.pop(key) for key in ("name", "toxicity", "ttl_ms") if key in more}
        body: dict[str, Any] = {"type": kind, "stream": stream, "attributes": more, **own}
        answer: dict[str, Any] = self.server.call("POST", f"{self.path}/toxics", body)
        return answer

    def update(self, toxic: str, **body: Any) -> dict[str, Any]:
        answer: dict[str, Any] = self.server.call("PATCH", f"{self.path}/toxics/{toxic}", body)
        return answer

    def remove(self, toxic: str) -> None:
        self.server.call("DELETE", f"{self.path}/toxics/{toxic}")

    def connections(self) -> list[dict[str, Any]]:
        answer: list[dict[str, Any]] = self.server.call("GET", f"{self.path}/connections")
        return answer

    def events(self, **fields: Any) -> list[dict[str, Any]]:
        return self.server.events(proxy=self.name, **fields)

    def await_event(self, **fields: Any) -> dict[str, Any]:
        return self.server.await_event(proxy=self.name, **fields)

    def await_connections(self, count: int) -> None:
        """That many are open; a connect of a client is ahead of what the proxy knows."""
        awaited(lambda: [c["state"] for c in self.connections()] == ["open"] * count, f"{count} open connections")


def awaited(what: Callable[[], Any], name: str) -> Any:
    """What a function finds, once it finds something."""
    deadline = time.monotonic() + PATIENCE
    while not (found := what()):
        assert time.monotonic() < deadline, f"not within {PATIENCE:g}s: {name}"
        time.sleep(0.005)
    return found


@contextmanager
def serving(*arguments: str, **options: Any) -> Iterator[Server]:
    """A server on a free port, for as long as the block; it must not have stumbled over anything meanwhile."""
    command = [sys.executable, "-m", "chaos.toxiproxy", "--port", "0", *arguments]
    with TemporaryFile("w+") as complaints:
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=complaints, text=True, **options
        )  # fmt: skip
        try:
            yield Server(process)
        finally:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
        complaints.seek(0)
        assert complaints.read() == ""


@contextmanager
def upstream(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    """A port whose connections are served by that function, each in a thread."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=256)
    threads: list[threading.Thread] = []
    open_sockets: list[socket.socket] = []

    def one(sock: socket.socket) -> None:
        with sock, suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            serve(sock)

    def accept() -> None:
        with suppress(OSError):
            while True:
                sock = listener.accept()[0]
                open_sockets.append(sock)
                threads.append(threading.Thread(target=one, args=(sock,)))
                threads[-1].start()

    threads.append(threading.Thread(target=accept))
    threads[0].start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        threads[0].join(PATIENCE)
        for sock in open_sockets:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        for thread in threads[1:]:
            thread.join(PATIENCE)


def echo(sock: socket.socket) -> None:
    while data := sock.recv(65536):
        sock.sendall(data)


class Kept:
    """An upstream that says nothing and keeps what it hears, with the way each connection ended."""

    def __init__(self) -> None:
        self.heard = bytearray()
        self.pieces: list[int] = []
        self.ends: list[str] = []

    def __call__(self, sock: socket.socket) -> None:
        try:
            while data := sock.recv(65536):
                self.heard += data
                self.pieces.append(len(data))
            self.ends.append("eof")
        except ConnectionResetError:
            self.ends.append("reset")

    def await_bytes(self, count: int) -> bytes:
        awaited(lambda: len(self.heard) >= count, f"{count} bytes at the upstream")
        return bytes(self.heard)

    def await_end(self) -> str:
        awaited(lambda: self.ends, "the end of a connection")
        return self.ends[0]


def receive(sock: socket.socket, count: int) -> bytes:
    """So many bytes, or those before the end."""
    data = b""
    while len(data) < count and (more := sock.recv(min(65536, count - len(data)))):
        data += more
    return data


def is_reset(sock: socket.socket) -> bool:
    """Whether reading ends in ECONNRESET, and not in an end of file."""
    try:
        while sock.recv(65536):
            pass
    except ConnectionResetError:
        return True
    return False
