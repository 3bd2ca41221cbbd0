"""Requests between nodes of the lab, recorded from their packets and sent again."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import msgspec
import pytest

from chaos.api import Launch
from chaos.drivers.process import Process
from chaos.errors import NotLanded, Unsupported
from chaos.faults.writer.replay import Replay
from chaos.talk import Recordings
from chaos.testing import Recorder

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
Make = Callable[..., Launch]

# Says who asked for what, and answers each line with its number.
SERVER = """
    import hashlib, socketserver
    from chaos.inside import emit, hello
    class Talk(socketserver.StreamRequestHandler):
        def handle(self):
            for line in self.rfile:
                emit("line.taken", digest=hashlib.sha256(line).hexdigest(), peer=list(self.client_address))
                self.wfile.write(b"taken\\n")
    class Server(socketserver.ThreadingTCPServer):
        allow_reuse_address, daemon_threads = True, True
    hello("server", role="program")
    server = Server(("0.0.0.0", 7100), Talk)
    emit("server.ready")
    server.serve_forever()
"""
# One connection for all: small lines, and at the third a large one.
CLIENT = """
    import itertools, json, os, socket, time
    from chaos.inside import emit, hello
    hello("client", role="program")
    there = json.loads(os.environ["CHAOS_NODES"])["n-server"]
    def connected():
        while True:
            try:
                return socket.create_connection((there, 7100))
            except ConnectionRefusedError:
                time.sleep(0.01)
    with connected() as connection:
        emit("client.ready")
        for number in itertools.count(1):
            connection.sendall(b"write %d %s\\n" % (number, b"x" * (700_000 if number % 3 == 0 else 10)))
            connection.recv(100)
            time.sleep(0.01)
"""
NODES = [{"name": "n-server"}, {"name": "n-client"}]
LINKS = {"writes": {"from": "n-client", "to": "n-server", "port": 7100}}


@contextlib.asynccontextmanager
async def target(launch: Launch, stage: Recorder) -> AsyncIterator[Recordings]:
    needing = msgspec.structs.replace(launch, faults=(Replay(link="writes", match="write"),))
    async with Process().open(needing, stage) as live:
        await live.wait_ready()
        assert isinstance(live, Recordings)
        yield live


def made(launch: Make, **more: Any) -> Launch:
    ready = {"event": "client.ready", "within": "20s"}
    return launch({"server": SERVER, "client": CLIENT}, node="n-", nodes=NODES, links=LINKS, ready=ready, **more)


@pytest.mark.parametrize("text", [b"xxxx\n", b"x" * 1000])  # of a small line, of one of many packets
async def test_a_request_is_sent_again_byte_for_byte_from_its_own_node(
    stage: Recorder, launch: Make, text: bytes
) -> None:
    async with target(made(launch), stage) as live:
        async with live.record("writes", ["n-client"]) as tape:
            request = await tape.find(text, 10.0)
        assert request.data.startswith(b"write ")
        assert request.data.endswith(b"x\n")
        whose = hashlib.sha256(request.data).hexdigest()
        async with live.record("writes", []) as tape:
            sent = await tape.send_again(request)
        assert sent["answer"] == "taken\n"
        assert sent["bytes"] == len(request.data)
        with anyio.fail_after(10):
            await stage.until("line.taken")
        took = [e for e in stage.events if e.kind == "line.taken" and e.get("digest") == whose]
        ports = {e.get("peer")[1] for e in took}
        assert len(took) == len(ports) == 2, "once from the client, and once on a connection of its own"
        assert sent["from"] in [e.get("peer") for e in took]


async def test_what_never_passes_is_not_found(stage: Recorder, launch: Make) -> None:
    async with target(made(launch), stage) as live, live.record("writes", ["n-client"]) as tape:
        with pytest.raises(NotLanded, match=r"none of \d+ requests on link writes within 0.3 s"):
            await tape.find(b"read", 0.3)


async def test_only_what_clients_of_a_node_send_is_recorded(stage: Recorder, launch: Make) -> None:
    async with target(made(launch), stage) as live, live.record("writes", ["n-server"]) as tape:
        with pytest.raises(NotLanded, match="none of 0 requests"):
            await tape.find(b"write", 0.3)


async def test_nobody_takes_what_is_sent_to_a_server_that_has_gone(stage: Recorder, launch: Make) -> None:
    async with target(made(launch), stage) as live, live.record("writes", ["n-client"]) as tape:
        request = await tape.find(b"write", 10.0)
        elsewhere = msgspec.structs.replace(request, to=(request.to[0], 7101))
        with pytest.raises(NotLanded, match="7101 does not take the recorded request"):
            await tape.send_again(elsewhere)


async def test_a_link_that_is_not_declared_cannot_be_recorded(stage: Recorder, launch: Make) -> None:
    async with target(made(launch), stage) as live:
        with pytest.raises(Unsupported, match="declares no link 'reads', only writes"):
            async with live.record("reads", []):
                pass


async def test_without_a_lab_nothing_is_recorded_and_the_reason_is_told(stage: Recorder, launch: Make) -> None:
    needing = msgspec.structs.replace(
        launch({"a": "import signal; signal.pause()"}, lab=False), faults=(Replay(link="writes", match="x"),)
    )
    async with Process().open(needing, stage) as live:
        assert not isinstance(live, Recordings)
        assert "in the lab only" in live.mechanisms()["recording-refused"]  # type: ignore[attr-defined]
