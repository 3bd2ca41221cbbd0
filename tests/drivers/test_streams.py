"""Toxics on the links of real processes in the lab: what they meet, what the proof says, and the heal."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import msgspec
import pytest

from chaos.api import Fault, Landing, Launch, Member, Selection, Selector
from chaos.drivers.process import Process
from chaos.errors import NotLanded
from chaos.faults.network.bandwidth import Bandwidth
from chaos.faults.network.blackhole import Blackhole
from chaos.faults.network.down import Down
from chaos.faults.network.latency import Latency
from chaos.faults.network.limit_data import LimitData
from chaos.faults.network.reset import Reset
from chaos.faults.network.slicer import Slicer
from chaos.faults.network.slow_close import SlowClose
from chaos.testing import Recorder
from chaos.ways import Streams, Toxic

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
Make = Callable[..., Launch]

NODES = [{"name": "n-server"}, {"name": "n-client"}, {"name": "n-other"}]
LINK = {"from": "n-client", "to": "n-server", "port": 7000}

# Echoes what it gets; after "close" it closes.
SERVER = """
    import json, os, socket, threading
    from chaos import inside
    inside.hello("server", role="program")
    server = socket.create_server((json.loads(os.environ["CHAOS_NODES"])["n-server"], 7000))
    inside.emit("server.ready")
    def talk(stream):
        with stream:
            try:
                while data := stream.recv(1 << 16):
                    stream.sendall(data)
            except OSError as error:
                inside.emit("server.error", error=type(error).__name__)
    while True:
        threading.Thread(target=talk, args=(server.accept()[0],), daemon=True).start()
"""
# For each line: a size to send and get back over the connection it has, or `new` for another one.
CLIENT = """
    import json, os, socket, time
    from chaos import inside
    inside.hello("client", role="program")
    place = (json.loads(os.environ["CHAOS_NODES"])["n-server"], 7000)
    def connect():
        stream = socket.create_connection(place, 2)
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return stream
    stream = connect()
    inside.emit("client.ready")
    for line in os.fdopen(os.open(os.environ["CHAOS_DATA"] + "/client", os.O_RDWR)):
        began, got, error = time.monotonic(), 0, ""
        try:
            if line.strip() == "new":
                stream = connect()
                size = 1
            else:
                size = int(line)
            stream.settimeout(2)
            stream.sendall(bytes(size))
            while got < size and (data := stream.recv(1 << 16)):
                got += len(data)
        except OSError as trouble:
            error = type(trouble).__name__
        inside.emit("client.got", got=got, error=error, seconds=time.monotonic() - began)
"""


class Under:
    """A fault that is armed, and what is known of it."""

    def __init__(self, landing: Landing) -> None:
        self.landing = landing

    async def met(self) -> dict[str, Any]:
        """Its evidence, once the client has met it."""
        assert self.landing.hit is not None
        with anyio.fail_after(5):
            return await self.landing.hit(lambda: None)

    @property
    def healed(self) -> dict[str, Any]:
        return self.landing.healed


class Talk:
    """The client of a test, and what stands between it and its server."""

    def __init__(self, target: Any, stage: Recorder, launch: Launch) -> None:
        self.target, self.stage, self.launch = target, stage, launch
        self._pipe = launch.folder / "data" / "client"
        self._asked = 0

    async def ask(self, what: int | str) -> dict[str, Any]:
        """Have the client send so much, or connect anew; what it got."""
        with self._pipe.open("w") as pipe:
            pipe.write(f"{what}\n")
        self._asked += 1
        return dict((await self.stage.until("client.got", times=self._asked)).data)

    @contextlib.asynccontextmanager
    async def under(self, fault: Fault[Any]) -> AsyncIterator[Under]:
        member = Member(name="client", role="program", pid=1, node="n-client")
        async with fault.inject(self.target, Selection(members=(member,), nodes=("n-client",))) as landing:
            assert not landing.evidence, "nobody met it yet"
            yield Under(landing)


@contextlib.asynccontextmanager
async def talking(launch: Make, stage: Recorder, fault: Fault[Any], **more: Any) -> AsyncIterator[Talk]:
    plan = launch({"server": SERVER, "client": CLIENT}, node="n-", nodes=NODES, links={"echo": LINK, **more})
    plan.spec["members"][0]["ready"] = {"event": "server.ready"}
    plan.spec["members"][1]["ready"] = {"event": "client.ready"}
    data = plan.folder / "data"
    data.mkdir(parents=True)
    os.mkfifo(data / "client")
    async with Process().open(msgspec.structs.replace(plan, faults=(fault,), seed=7), stage) as target:
        await target.wait_ready()
        assert target.mechanisms()["streams"] == "toxiproxy, embedded, by nftables redirect"  # type: ignore[attr-defined]
        assert isinstance(target, Streams)
        talk = Talk(target, stage, plan)
        assert (await talk.ask(1))["got"] == 1
        yield talk


CLIENTS = Selector(nodes=("n-client",))
ECHO: dict[str, Any] = {"link": "echo", "members": CLIENTS}


async def test_latency_delays_each_way_and_is_gone_after_the_heal(stage: Recorder, launch: Make) -> None:
    fault = Latency(**ECHO, latency=0.2)
    async with talking(launch, stage, fault) as talk:
        async with talk.under(fault) as under:
            assert 0.4 <= (await talk.ask(1))["seconds"] < 1
            proof = await under.met()
            assert proof["met"] == {"connections": 1, "bytes": 2, "by node": {"n-client": 1}}
            ways = {w["stream"]: w for w in proof["ways"]}
            assert ways.keys() == {"upstream", "downstream"}
            for way in ways.values():
                assert (way["from"], way["to"]) == ("n-client", "n-server")
                assert way["before"]["seconds"] < 0.2 <= way["seen"]["seconds"] < 0.5
        assert under.healed["met"]["connections"] == 1
        assert (await talk.ask(1))["seconds"] < 0.2
    log = talk.launch.folder / "logs/streams-n-server.jsonl"
    assert "toxic.hit" in {json.loads(line)["event"] for line in log.read_text().splitlines()}


async def test_one_way_latency_delays_one_way(stage: Recorder, launch: Make) -> None:
    fault = Latency(**ECHO, latency=0.2, stream="downstream")
    async with talking(launch, stage, fault) as talk, talk.under(fault) as under:
        assert 0.2 <= (await talk.ask(1))["seconds"] < 0.4
        assert [w["stream"] for w in (await under.met())["ways"]] == ["downstream"]


async def test_a_long_latency_is_not_waited_for_to_its_end(stage: Recorder, launch: Make) -> None:
    fault = Latency(**ECHO, latency=30.0)
    async with talking(launch, stage, fault) as talk:
        with anyio.fail_after(10):
            async with talk.under(fault) as under:
                assert (await talk.ask(1))["error"] == "TimeoutError"
                assert "longer than" in (await under.met())["ways"][0]["seen"]
            assert (await talk.ask("new"))["seconds"] < 1


async def test_a_toxic_that_no_connection_of_the_target_met_has_not_landed(stage: Recorder, launch: Make) -> None:
    fault = Latency(**ECHO, latency=0.1)
    async with talking(launch, stage, fault) as talk:
        async with talk.under(fault) as under:
            assert under.landing.hit is not None
            with anyio.move_on_after(0.5) as limit:
                await under.landing.hit(lambda: None)
            assert limit.cancelled_caught
        assert under.healed["met"]["connections"] == 0
        assert (await talk.ask(1))["seconds"] < 0.1


async def test_bandwidth_bounds_what_passes_in_a_second(stage: Recorder, launch: Make) -> None:
    fault = Bandwidth(**ECHO, rate=50_000)
    async with talking(launch, stage, fault) as talk:
        async with talk.under(fault) as under:
            got = await talk.ask(30_000)
            assert got["got"] == 30_000
            assert got["seconds"] >= 0.6
            assert all(w["seen"]["bytes per second"] <= 60_000 for w in (await under.met())["ways"])
        assert under.healed["met"]["bytes"] >= 60_000
        assert (await talk.ask(30_000))["seconds"] < 0.5


async def test_a_blackhole_keeps_connections_open_and_carries_nothing(stage: Recorder, launch: Make) -> None:
    fault = Blackhole(**ECHO)
    async with talking(launch, stage, fault) as talk:
        async with talk.under(fault) as under:
            assert await talk.ask(1) == {"got": 0, "error": "TimeoutError", "seconds": pytest.approx(2, abs=1)}
            assert (await talk.ask("new"))["error"] == "TimeoutError", "a new connection comes about"
            assert {w["seen"]["arrived"] for w in (await under.met())["ways"]} == {"nothing"}
        assert under.healed["met"]["connections"] == 2
        assert (await talk.ask("new"))["got"] == 1


async def test_a_one_way_blackhole_lets_what_is_said_arrive(stage: Recorder, launch: Make) -> None:
    fault = Blackhole(**ECHO, stream="downstream")
    async with talking(launch, stage, fault) as talk, talk.under(fault) as under:
        assert (await talk.ask(5))["error"] == "TimeoutError"
        assert (await under.met())["met"] == {"connections": 1, "bytes": 5, "by node": {"n-client": 1}}


async def test_a_reset_is_seen_as_one_by_both_ends(stage: Recorder, launch: Make) -> None:
    fault = Reset(**ECHO)
    async with talking(launch, stage, fault) as talk:
        async with talk.under(fault) as under:
            assert (await talk.ask(1))["error"] == "ConnectionResetError"
            assert (await stage.until("server.error")).data["error"] == "ConnectionResetError"
            assert {w["seen"]["error"] for w in (await under.met())["ways"]} == {"ECONNRESET"}
        assert under.healed["met"]["connections"] == 1
        assert (await talk.ask("new"))["got"] == 1


async def test_limit_data_cuts_after_exactly_so_many_bytes(stage: Recorder, launch: Make) -> None:
    fault = LimitData(**ECHO, bytes=1234, stream="downstream")
    async with talking(launch, stage, fault) as talk:
        async with talk.under(fault) as under:
            got = await talk.ask(5000)
            assert (got["got"], got["error"]) == (1234, "")
            assert (await under.met())["ways"][0]["seen"] == {"sent": 2234, "arrived": 1234}
        assert (await talk.ask("new"))["got"] == 1
        assert (await talk.ask(5000))["got"] == 5000


async def test_slicer_cuts_into_pieces(stage: Recorder, launch: Make) -> None:
    fault = Slicer(**ECHO, size=100, pause=0.01)
    async with talking(launch, stage, fault) as talk, talk.under(fault) as under:
        assert (await talk.ask(2000))["seconds"] >= 0.19
        assert all(w["seen"]["pieces"] >= 4 for w in (await under.met())["ways"])


async def test_slow_close_holds_the_end_back(stage: Recorder, launch: Make) -> None:
    fault = SlowClose(**ECHO, delay=0.2)
    async with talking(launch, stage, fault) as talk, talk.under(fault) as under:
        await talk.ask("new")  # drops the connection that it had
        for way in (await under.met())["ways"]:
            assert way["before"]["seconds"] < 0.2 <= way["seen"]["seconds"]


async def test_down_closes_and_refuses_and_is_up_again(stage: Recorder, launch: Make) -> None:
    fault = Down(**ECHO)
    async with talking(launch, stage, fault) as talk:
        async with talk.under(fault) as under:
            proof = await under.met()
            assert proof["met"]["connections"] == 1, "the one that it had was closed"
            assert proof["ways"][0]["before"] == {"connection": "accepted"}
            assert (await talk.ask(1))["got"] == 0
            assert (await talk.ask("new"))["error"] == "ConnectionRefusedError"
        assert under.healed["met"]["connections"] == 2
        assert (await talk.ask("new"))["got"] == 1


async def test_toxicity_hits_a_share_of_the_connections_and_the_proof_finds_one(stage: Recorder, launch: Make) -> None:
    fault = Reset(**ECHO, toxicity=0.3, stream="upstream")
    async with talking(launch, stage, fault) as talk, talk.under(fault) as under:
        outcomes = [(await talk.ask("new"))["got"] for _ in range(30)]
        assert set(outcomes) == {0, 1}
        assert (await under.met())["ways"][0]["tries"] >= 1


async def test_other_nodes_are_left_alone(stage: Recorder, launch: Make) -> None:
    fault = Blackhole(link="echo", members=Selector(nodes=("n-other",)))
    async with talking(launch, stage, fault) as talk:
        with pytest.raises(NotLanded, match="no connection of link echo leads from n-other"):
            await talk.target.poison(Toxic(link="echo", nodes=("n-other",), kind="timeout"))
        assert (await talk.ask(1))["got"] == 1


async def test_a_toxic_lives_no_longer_than_its_time(stage: Recorder, launch: Make) -> None:
    fault = Latency(**ECHO, latency=0.2, stream="upstream", ttl=2.0)
    async with talking(launch, stage, fault) as talk:
        async with talk.under(fault) as under:
            assert (await talk.ask(1))["seconds"] >= 0.2
            with anyio.fail_after(20):  # each answer comes late until its time is over
                while (await talk.ask(1))["seconds"] >= 0.2:
                    pass
        assert under.healed["expired"]


async def test_a_link_that_the_target_does_not_have_is_refused(stage: Recorder, launch: Make) -> None:
    plan = launch({}, nodes=NODES, links={"echo": {**LINK, "to": "n-other"}})
    fault = Latency(link="else", members=CLIENTS, latency=1)
    spec = msgspec.structs.replace(plan, faults=(fault,))
    with pytest.raises(Exception, match="neither a role nor a node"):
        Process().slots(plan.spec)
    plan.spec["members"].append({"name": "x", "role": "program", "node": "n-other", "command": ["true"]})
    plan.spec["members"].append({"name": "y", "role": "program", "node": "n-client", "command": ["true"]})
    async with Process().open(spec, stage) as target:
        assert "has no link else (known: echo)" in target.mechanisms()["streams-refused"]  # type: ignore[attr-defined]
        assert not isinstance(target, Streams)


async def test_two_links_that_share_connections_are_refused_together(stage: Recorder, launch: Make) -> None:
    plan = launch({"server": "", "client": ""}, node="n-", nodes=NODES, links={"echo": LINK, "more": LINK})
    faults = (Latency(link="echo", members=CLIENTS, latency=1), Latency(link="more", members=CLIENTS, latency=1))
    async with Process().open(msgspec.structs.replace(plan, faults=faults), stage) as target:
        assert "cannot be told apart" in target.mechanisms()["streams-refused"]  # type: ignore[attr-defined]


async def test_without_a_fault_of_streams_there_is_no_proxy(stage: Recorder, launch: Make) -> None:
    plan = launch({"server": "", "client": ""}, node="n-", nodes=NODES, links={"echo": LINK})
    async with Process().open(plan, stage) as target:
        assert not isinstance(target, Streams)
        assert "streams" not in target.mechanisms()  # type: ignore[attr-defined]
