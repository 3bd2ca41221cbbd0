"""Requests on a link, recorded from the packets of a node and sent again from there.

The harness holds sockets of the node: nothing on the target's way to its peers is changed by it.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress

import anyio
import msgspec
from anyio.abc import TaskGroup, TaskStatus

from chaos.api import JSON
from chaos.drivers.process.fittings.base import Face, Fitting
from chaos.drivers.process.fittings.wire import Wire
from chaos.drivers.process.flows import Requests, only_port
from chaos.drivers.process.links import Link
from chaos.drivers.process.supervisor import Supervisor
from chaos.errors import NotLanded, Unsupported
from chaos.talk import Recorded, Recordings, Tape
from chaos.units import counted

BUFFER = 64 << 20  # bytes of packets that may wait for the harness, which may be busy
SO_RCVBUFFORCE = 33
ETH_P_ALL = 3  # also what is sent, not only what comes in
DEVICE = "eth0"
ANSWER, QUIET = 5.0, 0.2  # seconds for the first byte of an answer, and after the last one
SHOWN = 300  # bytes of an answer


class RecordingFace(Face):
    """Implements Recordings."""

    def record(self, link: str, nodes: Sequence[str]) -> AbstractAsyncContextManager[Tape]:
        return self.fitting(RecordingFitting).record(link, nodes)


class RecordingFitting(Fitting):
    """A packet socket on each node that is recorded, for as long as it is."""

    name = "recording"
    capability = Recordings
    face = RecordingFace

    def lab(self) -> JSON:
        if not self.recipe.launch.lab:
            raise Unsupported("requests are recorded in the lab only: without it nodes have no network of their own")
        return {}

    async def set_up(self, supervisor: Supervisor, tasks: TaskGroup) -> str:
        self._supervisor, self._tasks = supervisor, tasks
        if self.recipe.addresses:
            node = next(iter(self.recipe.addresses))
            try:
                (await supervisor.socket(node, socket.SOCK_DGRAM, socket.AF_PACKET)).close()
            except NotLanded as error:
                raise Unsupported(
                    f"requests cannot be recorded here: {error}", "a kernel with CONFIG_PACKET"
                ) from error
        return f"packet sockets on {DEVICE}"

    @asynccontextmanager
    async def record(self, link: str, nodes: Sequence[str]) -> AsyncIterator[Tape]:
        """See `chaos.talk.Recordings`."""
        declared = self.recipe.launch.spec.get("links", {})
        if link not in declared:
            raise Unsupported(f"the target declares no link {link!r}, only {', '.join(declared) or 'none'}")
        recording, scope = _Recording(link, Wire(self._supervisor, self.recipe.addresses)), anyio.CancelScope()
        heard: list[tuple[socket.socket, Requests]] = []
        try:
            for port in msgspec.convert(declared[link], Link).ports:
                for node in nodes or self.recipe.addresses:
                    one = await self._supervisor.socket(node, socket.SOCK_DGRAM, socket.AF_PACKET)
                    heard.append((one, Requests(node, self.recipe.addresses[node], port)))
                    _listen(one, port)
            await self._tasks.start(recording.run, heard, scope)
            yield recording
        finally:
            scope.cancel()
            with anyio.CancelScope(shield=True):
                await recording.done.wait()
            for one, _ in heard:
                one.close()


def _listen(packets: socket.socket, port: int) -> None:
    with suppress(PermissionError):  # then it is as large as the machine allows; what is missed is noticed
        packets.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER)
    only_port(packets, port)
    packets.bind((DEVICE, ETH_P_ALL))


class _Recording:
    """Implements Tape."""

    def __init__(self, link: str, wire: Wire) -> None:
        self._link, self._wire = link, wire
        self._requests: list[Recorded] = []
        self._news = anyio.Event()
        self.done = anyio.Event()  # nobody reads the sockets
        self.done.set()

    async def run(
        self,
        followed: Sequence[tuple[socket.socket, Requests]],
        scope: anyio.CancelScope,
        *,
        task_status: TaskStatus[None],
    ) -> None:
        """Until cancelled."""
        self.done = anyio.Event()
        task_status.started()
        with scope:
            async with anyio.create_task_group() as tasks:
                for packets, requests in followed:
                    tasks.start_soon(self._follow, packets, requests)
        self.done.set()

    async def _follow(self, packets: socket.socket, requests: Requests) -> None:
        while True:
            await anyio.wait_readable(packets)
            with suppress(BlockingIOError):
                while True:
                    self._take(requests.packet(packets.recv(1 << 17)))

    def _take(self, request: Recorded | None) -> None:
        if request is not None:
            self._requests.append(request)
            self._news.set()
            self._news = anyio.Event()

    async def find(self, text: bytes, within: float) -> Recorded:
        seen = 0
        with anyio.move_on_after(within):
            while True:
                for request in self._requests[seen:]:
                    if text in request.data:
                        return request
                seen = len(self._requests)
                await self._news.wait()
        raise NotLanded(
            f"none of {counted(seen, 'request')} on link {self._link} within {within:g} s has {text!r} in it"
        )

    async def send_again(self, request: Recorded) -> JSON:
        whom = f"{request.to[0]}:{request.to[1]}"
        try:
            connection = await self._wire.connect(request.node, request.to)
        except OSError as error:
            raise NotLanded(f"{whom} does not take the recorded request: {error}") from error
        with connection:
            source = connection.getsockname()
            answer = await _exchange(connection, request.data)
        if not answer:
            raise NotLanded(f"{whom} gave no answer to the recorded request")
        return {
            "mechanism": f"packet socket on {DEVICE} of {request.node}", "link": self._link, "from": list(source),
            "bytes": len(request.data), "answer": answer[:SHOWN].decode(errors="backslashreplace"),
        }  # fmt: skip


async def _exchange(connection: socket.socket, data: bytes) -> bytes:
    """Send, and read what comes until it is quiet."""
    rest, answer = memoryview(data), b""
    with suppress(ConnectionError), anyio.move_on_after(ANSWER) as limit:
        while rest:
            await anyio.wait_writable(connection)
            with suppress(BlockingIOError):
                rest = rest[connection.send(rest) :]
        while True:
            await anyio.wait_readable(connection)
            more = connection.recv(1 << 16)
            if not more:
                break
            answer += more
            limit.deadline = anyio.current_time() + QUIET
    return answer
