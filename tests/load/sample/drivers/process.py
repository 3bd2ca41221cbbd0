"""A driver, for tests: four nodes with an agent and a worker each, a coordinator on the first."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from chaos.api import JSON, Driver, Launch, Slot, Stage, Target
from chaos.errors import SpecError


class Process(Driver, frozen=True, kw_only=True):
    """Start nothing."""

    def slots(self, spec: JSON) -> tuple[Slot, ...]:
        if "members" not in spec:
            raise SpecError("`$.description` has no members")
        nodes = spec["settings"]["nodes"]
        if not isinstance(nodes, int):
            raise SpecError(f"$.settings.nodes is no number: {nodes!r}")
        places = [(f"n{i}", {"rack": f"r{i // 2}"}) for i in range(nodes)]
        agents = [Slot(name=f"agent-{n}", role="agent", node=n, domains=d) for n, d in places]
        workers = [
            Slot(name=f"worker-{n}", role="worker", node=n, rank=i, domains=d) for i, (n, d) in enumerate(places)
        ]
        leader = Slot(name="coordinator-0", role="coordinator", node="n0", domains={"rack": "r0"})
        return (leader, *agents, *workers)

    def open(self, launch: Launch, stage: Stage) -> AbstractAsyncContextManager[Target]:
        raise NotImplementedError
