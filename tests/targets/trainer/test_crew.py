"""What a leader takes for a failure, and what not."""

from __future__ import annotations

from typing import Any, cast

import anyio
import pytest

from targets.trainer.coordinator.crew import TICK, Crew, Group
from targets.trainer.coordinator.lease import Deposed, Lease
from targets.trainer.coordinator.members import Link
from targets.trainer.settings import Settings
from targets.trainer.wire import Frame

from .cluster import record

pytestmark = pytest.mark.anyio


class Held:
    """A lease that lasts until it is told."""

    def __init__(self) -> None:
        self.epoch, self.valid = 1, True

    def check(self) -> None:
        if not self.valid:
            raise Deposed("lost")


@pytest.mark.parametrize("farewell", [{"op": "gone", "current": True}, {"op": "join"}])
async def test_a_leader_without_a_lease_takes_no_farewell_for_a_failure(
    monkeypatch: pytest.MonkeyPatch, farewell: dict[str, Any]
) -> None:
    # Whoever loses the lease dismisses the members, and hears them go.
    events, lease = record(monkeypatch), Held()
    crew = Crew(Settings(), cast(Lease, lease))
    crew.group = Group(1, ["n0", "n1"], 0, 0)
    agent = Link(cast(Any, None), Frame({"op": "join", "member": "agent-n0", "node": "n0"}))

    async def lose() -> None:
        await anyio.sleep(TICK / 4)
        lease.valid = False
        crew.members.inbox.put((agent, Frame(farewell)))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lose)
        with pytest.raises(Deposed):
            await crew.until(lambda: False)
    assert not events.of("failure.detected")
