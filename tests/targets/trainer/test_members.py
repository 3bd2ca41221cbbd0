"""Whom the door refuses: a word of an older epoch, unless it is a survivor's on its way to the next group."""

from __future__ import annotations

from typing import Any, cast

import anyio
import pytest

from targets.trainer.coordinator.detector import Heartbeats
from targets.trainer.coordinator.lease import Lease
from targets.trainer.coordinator.members import Inbox, Members
from targets.trainer.settings import Settings
from targets.trainer.wire import Frame
from targets.trainer.wire_async import AsyncLine

from .cluster import record

pytestmark = pytest.mark.anyio


class Held:
    """A lease that lasts."""

    valid = True
    epoch = 1

    def check(self) -> None:
        return


class Wire:
    """A worker's end of a connection."""

    def __init__(self) -> None:
        self.heard: list[dict[str, Any]] = []
        self._said: Inbox[Frame] = Inbox()

    def says(self, op: str, epoch: int) -> None:
        self._said.put(Frame({"op": op, "rank": 0, "epoch": epoch}))

    async def send(self, header: dict[str, Any]) -> None:
        self.heard.append(header)

    async def receive(self) -> Frame:
        return await self._said.get()


HELLO = Frame({"op": "hello", "member": "worker-n0", "node": "n0", "rank": 0, "epoch": 1})


async def heard(members: Members, op: str) -> Frame:
    """What the leader hears next of that kind."""
    with anyio.fail_after(5):
        while (said := (await members.inbox.get())[1])["op"] != op:
            pass
    return said


@pytest.mark.parametrize("kept", [True, False])
async def test_a_word_of_the_last_epoch_is_refused_unless_it_comes_from_a_worker_that_was_kept(
    monkeypatch: pytest.MonkeyPatch, kept: bool
) -> None:
    events, lease, wire = record(monkeypatch), Held(), Wire()
    members = Members(Settings(), cast(Lease, lease), Heartbeats(Settings(), anyio.current_time))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(members.serve, cast(AsyncLine, wire), HELLO)
        await heard(members, "hello")
        (link,) = members.workers.values()
        lease.epoch = 2
        if kept:
            members.kept = {link}
            wire.says("ready", 1)
            await heard(members, "ready")  # the leader has no group by then, and does not mind it
            await members.regroup({0: link})
            wire.says("joined", 2)
            wire.says("heartbeat", 1)  # of another thread, a moment too late
            wire.says("loaded", 2)
            assert (await heard(members, "joined"))["epoch"] == 2
            assert (await heard(members, "loaded"))["epoch"] == 2
        else:
            wire.says("heartbeat", 1)
            await heard(members, "gone")
        tasks.cancel_scope.cancel()
    assert [said.get("error") for said in wire.heard] == ([None] if kept else ["stale-epoch"])
    assert len(events.of("epoch.rejected", token=1, highest=2)) == (0 if kept else 1)
