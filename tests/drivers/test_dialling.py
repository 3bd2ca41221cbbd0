"""A real Redis in the lab, called and spoilt from a node of its clients."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import pytest

from chaos.api import Fault, Launch, Member, Selection, Selector
from chaos.drivers.process import Process
from chaos.errors import NotLanded, Unsupported
from chaos.faults.dependency._resp import calling
from chaos.faults.dependency.full import Full
from chaos.faults.dependency.stampede import Stampede
from chaos.faults.dependency.wrong_values import WrongValues
from chaos.talk import Dials, NobodyThere
from chaos.testing import Recorder

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("redis-server") is None, reason="there is no redis-server on this machine"),
]
Make = Callable[..., Launch]
SERVER = """
    import os
    from chaos.inside import hello
    hello("server", role="store")
    os.execvp("redis-server", ["redis-server", "--port", "7100", "--bind", os.environ["CHAOS_ADDRESS"], "--save", "",
                               "--protected-mode", "no"])
"""
CLIENT = """
    import json, os, signal, socket, time
    from chaos.inside import emit, hello
    hello("client", role="program")
    there = json.loads(os.environ["CHAOS_NODES"])["n-server"]
    while True:
        try:
            connection = socket.create_connection((there, 7100))
            break
        except ConnectionRefusedError:
            time.sleep(0.01)
    connection.sendall(b"MSET " + b" ".join(b"f:%d value%d" % (n, n) for n in range(700)) + b"\\r\\n")
    assert connection.recv(100) == b"+OK\\r\\n"
    emit("client.ready")
    signal.pause()
"""
NODES = [{"name": "n-server"}, {"name": "n-client"}]
LINKS = {"store": {"from": "n-client", "to": "n-server", "port": 7100}}
ONE = Selector(names=("server",))


@contextlib.asynccontextmanager
async def target(launch: Make, stage: Recorder) -> AsyncIterator[Any]:
    ready = {"event": "client.ready", "within": "20s"}
    made = launch({"server": SERVER, "client": CLIENT}, node="n-", nodes=NODES, links=LINKS, ready=ready)
    async with Process().open(msgspec.structs.replace(made, faults=(Stampede(),)), stage) as live:
        await live.wait_ready()
        assert isinstance(live, Dials)
        yield live


def hit(live: Any) -> Selection:
    server: Member = next(m for m in live.members() if m.name == "server")
    return Selection(members=(server,), nodes=("n-server",))


async def value(live: Dials, key: str) -> object:
    async with calling(live, "store") as redis:
        return await redis("GET", key)


async def test_a_stampede_leaves_no_key(stage: Recorder, launch: Make) -> None:
    async with target(launch, stage) as live:
        async with Stampede(members=ONE, keys="f:*").inject(live, hit(live)) as landing:
            assert landing.evidence["removed"] == 700
            assert landing.evidence["from"] == "n-client"
        assert await value(live, "f:7") is None


async def test_values_are_wrong_for_a_while(stage: Recorder, launch: Make) -> None:
    async with target(launch, stage) as live:
        async with WrongValues(members=ONE, keys="f:1*").inject(live, hit(live)) as landing:
            assert landing.evidence["changed"] == 111
            assert await value(live, "f:1") != b"value1"
            assert await value(live, "f:2") == b"value2"
        assert await value(live, "f:1") == b"value1"
        assert landing.healed == {"restored": 111, "written_by_others": 0}


async def test_a_full_store_takes_nothing_new_and_then_does_again(stage: Recorder, launch: Make) -> None:
    async with target(launch, stage) as live:
        async with Full(members=ONE).inject(live, hit(live)) as landing:
            assert "OOM" in landing.evidence["refused"]
            assert await value(live, "f:1") == b"value1"
        assert landing.healed["settings"]["maxmemory"] == "0"


@pytest.mark.parametrize("fault", [WrongValues(members=ONE, most=1), Full(members=ONE)], ids=["wrong", "full"])
async def test_a_server_that_was_killed_needs_no_heal(stage: Recorder, launch: Make, fault: Fault[Any]) -> None:
    async with target(launch, stage) as live:
        async with fault.inject(live, hit(live)) as landing:
            await live.signal(hit(live).members[0], 9)
            await stage.until("member.exited", "server")
        assert "takes no call" in landing.healed["gone"]
        with pytest.raises(NobodyThere):
            await value(live, "f:1")


async def test_a_link_that_is_not_declared_cannot_be_called(stage: Recorder, launch: Make) -> None:
    async with target(launch, stage) as live:
        with pytest.raises(Unsupported, match="declares no link 'cache', only store"):
            async with live.dial("cache"):
                pass
        with pytest.raises(NotLanded, match="gave no answer within"):
            async with live.dial("store") as line:
                await line.receive(0.1)
