"""The supervisor dies, what it supervised goes on: orphans."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol, runtime_checkable

from chaos.api import Fault, Landing, Member, Selection, Selector, Signals
from chaos.errors import NotLanded
from chaos.faults.process._signals import GONE, members_of, prove, send


@runtime_checkable
class Supervised(Signals, Protocol):
    """Signals, and who is alive."""

    def members(self) -> tuple[Member, ...]: ...


class KillAgent(Fault[Supervised], frozen=True, kw_only=True):
    """End only the selected supervisors with SIGKILL, while members of `worker-role` run under them on the same nodes.

    Proof: the agents have ended; each worker was alive when its agent was killed and nothing was sent to it, its
    state right afterwards is told.

    Heal: none.
    """

    fidelity = (
        "a crashed node agent. Workers that watch their agent end with it, which is right; those that do not are "
        "orphans: they hold devices, ports and a place in the group."
    )
    instant = True

    members: Selector
    worker_role: str = "worker"

    def selectors(self) -> tuple[Selector, ...]:
        return (self.members,)

    @asynccontextmanager
    async def inject(self, target: Supervised, *hit: Selection) -> AsyncIterator[Landing]:
        agents = members_of(hit[0])
        nodes, killed = {agent.node for agent in agents}, {agent.pid for agent in agents}
        workers = [
            m for m in target.members() if m.role == self.worker_role and m.node in nodes and m.pid not in killed
        ]
        if not workers:
            raise NotLanded(f"no worker is alive under {', '.join(agent.name for agent in agents)}")
        reached = await send(target, agents, signal.SIGKILL)
        yield Landing(
            {
                "signal": "SIGKILL",
                "members": await prove(target, reached, GONE),
                "workers": [{"member": w.name, "pid": w.pid, "state": target.state(w)} for w in workers],
            }
        )
