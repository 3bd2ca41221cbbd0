"""Cuts between nodes of the lab, seen by real connections of real processes."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import anyio
import pytest

from chaos.api import Cut, Launch, Links
from chaos.drivers.process import Process
from chaos.drivers.process.target import LabTarget
from chaos.errors import NotLanded
from chaos.testing import Recorder

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
Make = Callable[..., Launch]

NODES = [{"name": "n-a"}, {"name": "n-b"}, {"name": "n-c"}]


def dropped(proof: dict[str, object]) -> dict[tuple[str, str], bool]:
    """What a proof says of each pair: True where the packet was dropped, False where it arrived."""
    pairs = proof["pairs"]
    assert isinstance(pairs, list)
    return {(p["from"], p["to"]): p.get("dropped", 0) >= 1 and "received" not in p for p in pairs}


def both(a: str, b: str) -> Cut:
    return Cut(pairs=((a, b), (b, a)))


@contextlib.asynccontextmanager
async def lab(launch: Launch, stage: Recorder) -> AsyncIterator[Links]:
    async with Process().open(launch, stage) as target:
        assert isinstance(target, Links)
        await target.wait_ready()
        yield target


async def test_a_cut_is_proved_by_dropped_packets_and_a_restore_by_packets_that_arrive(
    stage: Recorder, launch: Make
) -> None:
    async with lab(launch({}, nodes=NODES), stage) as links:
        assert links.nodes() == ("n-a", "n-b", "n-c")
        proof = await links.cut(both("n-a", "n-b"))
        assert dropped(proof) == {("n-a", "n-b"): True, ("n-b", "n-a"): True}
        assert all(p["sent"] >= 1 and p["rule"] > 0 for p in proof["pairs"])
        healed = await links.restore(both("n-a", "n-b"))
        assert dropped(healed) == {("n-a", "n-b"): False, ("n-b", "n-a"): False}


TALKER = """
    import json, os, socket, time
    to = json.loads(os.environ["CHAOS_NODES"])["n-b"], 9
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as talk:
        while True:
            talk.sendto(b"x", to)
            time.sleep(0.01)
"""


async def test_a_restore_counts_the_packets_of_the_target_that_met_the_cut_and_not_our_own(
    stage: Recorder, launch: Make
) -> None:
    async with lab(launch({"a": TALKER}, node="n-", nodes=NODES), stage) as links:
        met, unmet = Cut(pairs=(("n-a", "n-b"),)), Cut(pairs=(("n-a", "n-c"), ("n-c", "n-a")))
        await links.cut(met)
        await links.cut(unmet)
        assert (await links.restore(unmet))["met"] == 0
        found = 0
        with anyio.fail_after(10):
            while not found:
                found = (await links.restore(met))["met"]
                await links.cut(met)
        await links.restore(met)


async def test_cuts_stack_and_a_restore_leaves_what_another_cut_covers(stage: Recorder, launch: Make) -> None:
    async with lab(launch({}, nodes=NODES), stage) as links:
        first, second = both("n-a", "n-b"), Cut(pairs=(("n-a", "n-b"), ("n-a", "n-c")))
        await links.cut(first)
        assert all(dropped(await links.cut(second)).values())
        assert dropped(await links.restore(first)) == {("n-a", "n-b"): True, ("n-b", "n-a"): False}
        assert dropped(await links.restore(second)) == {("n-a", "n-b"): False, ("n-a", "n-c"): False}


async def test_a_cut_of_a_node_that_does_not_exist_lands_nowhere_and_leaves_nothing(
    stage: Recorder, launch: Make
) -> None:
    async with lab(launch({}, nodes=NODES), stage) as links:
        with pytest.raises(NotLanded):
            await links.cut(Cut(pairs=(("n-a", "n-b"), ("n-a", "nowhere"))))
        cut = Cut(pairs=(("n-a", "n-b"),))
        with pytest.raises(NotLanded, match="nothing cuts"):
            await links.restore(cut)
        await links.cut(cut)
        assert dropped(await links.restore(cut)) == {("n-a", "n-b"): False}


async def test_a_lab_that_has_ended_needs_no_heal(stage: Recorder, launch: Make) -> None:
    async with Process().open(launch({"a": "import signal; signal.pause()"}, node="n-", nodes=NODES), stage) as target:
        assert isinstance(target, LabTarget)
        await target.wait_ready()
        cut = Cut(pairs=(("n-a", "n-b"),))
        await target.cut(cut)
        await target._supervisor.end()
        await target.wait_finished()
        assert await target.restore(cut) == {"ended": "with the lab"}
        with pytest.raises(NotLanded, match="the lab has ended"):
            await target.cut(cut)


STREAM = """
    import json, os, socket, threading
    from chaos import inside
    nodes = json.loads(os.environ["CHAOS_NODES"])
    inside.hello("{me}", role="program")
    if "{me}" == "a":
        server = socket.create_server((nodes["n-a"], 7000))
        inside.emit("a.ready")
        stream, _ = server.accept()
    else:
        stream = socket.create_connection((nodes["n-a"], 7000))
    def listen():
        while data := stream.recv(1):
            inside.emit("byte.received", byte=data.decode())
    threading.Thread(target=listen, daemon=True).start()
    inside.emit("stream.stands")
    for line in os.fdopen(os.open(os.environ["CHAOS_DATA"] + "/{me}", os.O_RDWR)):
        stream.sendall(line.strip().encode())
        inside.emit("byte.sent", byte=line.strip())
"""


class Two:
    """Two members with an established TCP connection between their nodes; a test tells each what to send."""

    def __init__(self, stage: Recorder, links: Links, data: Path) -> None:
        self.stage = stage
        self.links = links
        self.data = data

    async def send(self, sender: str, byte: str) -> None:
        """Returns once the sender has handed the byte to its kernel."""
        before = sum(e.kind == "byte.sent" and e.source == sender for e in self.stage.events)
        with (self.data / sender).open("w") as pipe:
            pipe.write(f"{byte}\n")
        await self.stage.until("byte.sent", sender, times=before + 1)

    def heard(self, receiver: str) -> str:
        return "".join(e.data["byte"] for e in self.stage.events if e.kind == "byte.received" and e.source == receiver)

    async def until_heard(self, receiver: str, text: str) -> None:
        await self.stage.until("byte.received", receiver, times=len(text))
        assert self.heard(receiver) == text


@contextlib.asynccontextmanager
async def connected(launch: Make, stage: Recorder) -> AsyncIterator[Two]:
    plan = launch({me: STREAM.replace("{me}", me) for me in "ab"}, node="n-", nodes=NODES)
    plan.spec["members"][0]["ready"] = {"event": "a.ready"}
    data = plan.folder / "data"
    data.mkdir(parents=True)
    for me in "ab":
        os.mkfifo(data / me)
    async with lab(plan, stage) as links:
        await stage.until("stream.stands", "a")
        await stage.until("stream.stands", "b")
        two = Two(stage, links, data)
        await two.send("a", "1")
        await two.until_heard("b", "1")
        yield two


async def test_an_established_connection_is_cut_while_events_still_arrive(stage: Recorder, launch: Make) -> None:
    async with connected(launch, stage) as two:
        await two.links.cut(both("n-a", "n-b"))
        await two.send("a", "2")  # told over the event socket, which no cut touches
        await two.send("b", "2")
        await anyio.sleep(0.15)
        assert two.heard("a") == ""
        assert two.heard("b") == "1"
        await two.links.restore(both("n-a", "n-b"))
        await two.until_heard("b", "12")  # TCP sends it again
        await two.until_heard("a", "2")


async def test_a_one_way_cut_lets_the_other_way_pass(stage: Recorder, launch: Make) -> None:
    async with connected(launch, stage) as two:
        await two.links.cut(Cut(pairs=(("n-a", "n-b"),)))
        await two.send("b", "2")
        await two.until_heard("a", "2")
        await two.send("a", "2")
        await anyio.sleep(0.15)
        assert two.heard("b") == "1"


async def test_a_cut_leaves_other_nodes_alone(stage: Recorder, launch: Make) -> None:
    async with connected(launch, stage) as two:
        await two.links.cut(both("n-a", "n-c"))
        await two.send("a", "2")
        await two.until_heard("b", "12")


async def test_the_host_sees_nothing_of_the_network(stage: Recorder, launch: Make) -> None:
    before = socket.if_nameindex()
    async with lab(launch({}, nodes=NODES), stage):
        assert socket.if_nameindex() == before
