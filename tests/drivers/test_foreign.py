"""Toxics on a Toxiproxy server that runs by itself, driven by toxiproxy-python, without a lab."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import anyio
import msgspec
import pytest

from chaos.api import Fault, Launch, Selection, Selector
from chaos.drivers.process import Process
from chaos.drivers.process.fittings.foreign import BY_KERNEL, Foreign, Standing
from chaos.errors import NotLanded
from chaos.faults.network.bandwidth import Bandwidth
from chaos.faults.network.blackhole import Blackhole
from chaos.faults.network.down import Down
from chaos.faults.network.latency import Latency
from chaos.faults.network.reset import Reset
from chaos.testing import Recorder
from chaos.ways import Toxic

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
Make = Callable[..., Launch]

PROGRAM = {"a": "import signal; signal.pause()"}
NODES = [{"name": "n-a"}]
MEMBERS = Selector(nodes=("n-a",))
LINK: dict[str, Any] = {"link": "echo", "members": MEMBERS}


@pytest.fixture
def service() -> Iterator[int]:
    """A service that echoes."""
    server = socket.create_server(("127.0.0.1", 0))

    def talk(stream: socket.socket) -> None:
        with stream, contextlib.suppress(OSError):
            while data := stream.recv(4096):
                stream.sendall(data)

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=talk, args=(server.accept()[0],), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    yield server.getsockname()[1]
    server.shutdown(socket.SHUT_RDWR)
    server.close()


class Api:
    """The server's API, by hand."""

    def __init__(self, address: str) -> None:
        self.address = address

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        connection = http.client.HTTPConnection(self.address)
        connection.request(method, path, json.dumps(body) if body is not None else None)
        text = connection.getresponse().read()
        connection.close()
        return json.loads(text) if text else None


@pytest.fixture
def api(service: int) -> Iterator[Api]:
    """A server with a proxy `echo` in front of the service."""
    command = [sys.executable, "-m", "chaos.toxiproxy", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        url = json.loads(server.stdout.readline())["listening"]
        found = Api(url.removeprefix("http://"))
        found.ask("POST", "/proxies", {"name": "echo", "listen": "127.0.0.1:0", "upstream": f"127.0.0.1:{service}"})
        yield found
        server.terminate()


def trip(api: Api, within: float = 5.0) -> float:
    """Seconds for one byte to the service and back, through the proxy."""
    host, _, port = api.ask("GET", "/proxies/echo")["listen"].rpartition(":")
    with socket.create_connection((host, int(port)), within) as stream:
        began = time.monotonic()
        stream.sendall(b"?")
        assert stream.recv(1) == b"?"
        return time.monotonic() - began


@contextlib.asynccontextmanager
async def opened(
    launch: Make, stage: Recorder, api: Api, fault: Fault[Any], program: str = PROGRAM["a"], **link: Any
) -> AsyncIterator[Any]:
    links = {"echo": {"from": "n-a", "to": "n-a", "port": 7000, "proxy": "echo", **link}}
    plan = launch({"a": program}, lab=False, node="n-", nodes=NODES, links=links, toxiproxy={"address": api.address})
    async with Process().open(msgspec.structs.replace(plan, faults=(fault,)), stage) as target:
        await target.wait_ready()
        yield target


def connecting(api: Api) -> str:
    """A member that connects through the proxy, and tells when that connection ends."""
    host, _, port = api.ask("GET", "/proxies/echo")["listen"].rpartition(":")
    return f"""
import signal, socket
from chaos import inside
inside.hello("a", role="program")
stream = socket.create_connection(("{host}", {port}))
inside.emit("member.connected")
while stream.recv(64):
    pass
inside.emit("member.cut_off")
signal.pause()
"""


def _toxic(toxicity: float) -> Toxic:
    return Toxic(
        link="echo", nodes=("n-a",), kind="latency", streams=("upstream",), attributes={}, toxicity=toxicity, ttl=0
    )


async def evidence(landing: Any) -> dict[str, Any]:
    with anyio.fail_after(10):
        return dict(await landing.hit(lambda: None))


HIT = Selection(members=(), nodes=("n-a",))


async def test_latency_is_measured_on_a_sibling_and_met_by_those_who_connect(
    stage: Recorder, launch: Make, api: Api
) -> None:
    fault = Latency(**LINK, latency=0.2)
    async with opened(launch, stage, api, fault) as target:
        assert target.mechanisms()["streams"] == f"toxiproxy 2.12.0+chaos at {api.address}"
        async with fault.inject(target, HIT) as landing:
            assert {owed.url.rpartition("/")[2] for owed in stage.owed} >= {
                "latency-1-upstream",
                "latency-1-downstream",
            }
            assert await anyio.to_thread.run_sync(trip, api) >= 0.4
            proof = await evidence(landing)
            assert proof["met"]["connections"] == 1
            for way in proof["ways"]:
                assert way["before"]["seconds"] < 0.2 <= way["seen"]["seconds"]
        assert all(way["seen"]["seconds"] < 0.2 for way in landing.healed["ways"])
        assert not stage.owed
        assert api.ask("GET", "/proxies").keys() == {"echo"}, "the sibling has gone"
        assert api.ask("GET", "/proxies/echo/toxics") == []
        assert await anyio.to_thread.run_sync(trip, api) < 0.2


@pytest.mark.parametrize(
    "fault",
    [Bandwidth(**LINK, rate=50_000), Blackhole(**LINK, stream="downstream"), Reset(**LINK)],
    ids=lambda f: type(f).__name__,
)
async def test_other_toxics_land_and_heal(stage: Recorder, launch: Make, api: Api, fault: Fault[Any]) -> None:
    async with opened(launch, stage, api, fault) as target:
        async with fault.inject(target, HIT):
            assert api.ask("GET", "/proxies/echo/toxics")
        assert api.ask("GET", "/proxies/echo/toxics") == []
        assert await anyio.to_thread.run_sync(trip, api) < 1


async def test_down_closes_what_members_have_and_is_up_again(stage: Recorder, launch: Make, api: Api) -> None:
    fault = Down(**LINK)
    async with opened(launch, stage, api, fault, program=connecting(api)) as target:
        await stage.until("member.connected")
        async with fault.inject(target, HIT) as landing:
            assert [owed.url for owed in stage.owed] == [f"http://{api.address}/reset"]
            with pytest.raises(ConnectionRefusedError):
                await anyio.to_thread.run_sync(trip, api)
            proof = await evidence(landing)
            assert proof["ways"] == [{"proxy": "echo", "seen": {"connection": "refused"}}]
            assert (proof["met"]["connections"], proof["met"]["by"]) == (1, BY_KERNEL)
            await stage.until("member.cut_off")
        assert await anyio.to_thread.run_sync(trip, api) < 1
        assert not stage.owed


async def test_down_has_not_landed_where_nobody_was_connected(stage: Recorder, launch: Make, api: Api) -> None:
    fault = Down(**LINK)
    async with opened(launch, stage, api, fault) as target:
        async with fault.inject(target, HIT) as landing:
            with pytest.raises(NotLanded, match="no member was connected"):
                await evidence(landing)
        assert await anyio.to_thread.run_sync(trip, api) < 1


async def test_without_a_log_of_hits_the_kernel_tells_who_is_connected(stage: Recorder, launch: Make, api: Api) -> None:
    fault = Latency(**LINK, latency=0.1)
    async with opened(launch, stage, api, fault, program=connecting(api)) as target:
        target.fitting(Foreign)._logs = False
        await stage.until("member.connected")
        async with fault.inject(target, HIT) as landing:
            met = (await evidence(landing))["met"]
        listen = api.ask("GET", "/proxies/echo")["listen"]
        assert met == {"connections": 1, "with": [listen], "by": BY_KERNEL}
        assert landing.healed["met"] == met


async def test_without_a_log_of_hits_a_toxic_that_no_member_met_has_not_landed(
    stage: Recorder, launch: Make, api: Api
) -> None:
    fault = Latency(**LINK, latency=0.1)
    async with opened(launch, stage, api, fault) as target:
        target.fitting(Foreign)._logs = False
        async with fault.inject(target, HIT) as landing:
            await anyio.to_thread.run_sync(trip, api)  # of this process, which is no member
            assert landing.hit is not None
            with anyio.move_on_after(1.0) as limit:
                await landing.hit(lambda: None)
            assert limit.cancelled_caught
        assert landing.healed["met"]["connections"] == 0


async def test_without_a_log_of_hits_a_share_of_connections_is_refused(stage: Recorder, launch: Make, api: Api) -> None:
    fault = Latency(**LINK, latency=0.1, toxicity=0.5)
    async with opened(launch, stage, api, fault, program=connecting(api)) as target:
        target.fitting(Foreign)._logs = False
        poisoned = target.fitting(Foreign)
        poisoned._standing.append(standing := Standing(_toxic(0.5), None, None, [], 0))
        with pytest.raises(NotLanded, match="which share"):
            await target.wait_met(standing.toxic)
        poisoned._standing.clear()


async def test_a_proxy_that_is_not_there_is_refused(stage: Recorder, launch: Make, api: Api) -> None:
    fault = Latency(**LINK, latency=0.1)
    async with opened(launch, stage, api, fault, proxy="else") as target:
        assert "needs `proxy`, the name of a proxy" in target.mechanisms()["streams-refused"]


async def test_a_server_that_is_not_there_is_refused(stage: Recorder, launch: Make, api: Api) -> None:
    fault = Latency(**LINK, latency=0.1)
    async with opened(launch, stage, Api("127.0.0.1:1"), fault) as target:
        assert "streams-refused" in target.mechanisms()


async def test_a_fault_for_some_of_those_who_connect_is_refused(stage: Recorder, launch: Make, api: Api) -> None:
    fault = Latency(**LINK, latency=0.1)
    async with opened(launch, stage, api, fault) as target:
        with pytest.raises(NotLanded, match="serves all who connect"):
            async with fault.inject(target, Selection(members=(), nodes=("n-b",))):
                pass


async def test_in_the_lab_it_cannot_be_reached(stage: Recorder, launch: Make) -> None:
    fault = Latency(**LINK, latency=0.1)
    plan = launch({}, nodes=NODES, toxiproxy={"address": "127.0.0.1:8474"})
    async with Process().open(msgspec.structs.replace(plan, faults=(fault,)), stage) as target:
        assert "cannot be reached from inside the lab" in target.mechanisms()["streams-refused"]  # type: ignore[attr-defined]


async def test_without_a_lab_and_without_an_address_it_is_refused(stage: Recorder, launch: Make) -> None:
    fault = Latency(**LINK, latency=0.1)
    plan = launch(PROGRAM, lab=False, node="n-", nodes=NODES)
    async with Process().open(msgspec.structs.replace(plan, faults=(fault,)), stage) as target:
        assert "CHAOS_TOXIPROXY=host:port" in target.mechanisms()["streams-refused"]  # type: ignore[attr-defined]
