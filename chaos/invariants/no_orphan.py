"""T12: no worker outlives its supervisor by more than the lease."""

from __future__ import annotations

from typing import Any, ClassVar

from chaos.api import Duration, Invariant
from chaos.history import Event, History
from chaos.training import few, listed, strikes
from chaos.units import counted
from chaos.verdict import Verdict, failed, passed, unknown

_ENDS = ("job.completed", "job.failed", "target.finished", "final.started", "run.ended")


class NoOrphan(Invariant, frozen=True, kw_only=True):
    """When the agent of a node dies, its workers are gone within `lease`.

    A process counts, not a name: a worker that a new agent starts under the same name is another one. A worker that was
    alive when a fault hit its agent alone, and had gone by the time its agent had, did not outlive it. Agents that end
    with the job are not judged.
    """

    id: ClassVar[str] = "T12"
    needs: ClassVar[tuple[str, ...]] = ()
    lease: Duration = 3.0

    def check(self, history: History) -> Verdict:
        end = min((e.seq for kind in _ENDS if (e := history.first(kind))), default=len(history))
        workers: dict[tuple[str, int], Event] = {}
        orphans: list[tuple[Event, Event]] = []
        exits: dict[tuple[str, int], Event] = {}
        deaths: list[Event] = []
        left: dict[Any, Event] = {}  # nodes without an agent, and the death that left them so
        for event in history.of("member.started", "member.exited"):
            key = (event.get("member") or event.source, event.get("pid") or 0)
            if event.kind == "member.started":
                if event.get("role") == "agent":
                    left.pop(event.get("node"), None)
                elif event.get("role") == "worker":
                    workers[key] = event
                    if (death := left.get(event.get("node"))) is not None:  # forked before, heard of only now
                        orphans.append((death, event))
            elif event.get("role") == "agent" and event.seq < end and not event.get("expected"):
                deaths.append(event)
                left[event.get("node")] = event
                orphans += [(event, w) for w in workers.values() if w.get("node") == event.get("node")]
            elif event.get("role") == "worker" or key in workers:
                workers.pop(key, None)
                exits[key] = event
        if not deaths:
            return unknown("no agent died")
        early = [pair for death in deaths for pair in _before(history, death)]
        if not orphans and not early:
            return unknown("no worker was alive when an agent died", few([e.seq for e in deaths]))
        if not orphans:
            first = max(death.t - gone.t for gone, death in early)
            return passed(
                f"{counted(len(early), 'worker')} had gone when their agents had, up to {first:.3f} s before",
                few(sorted({e.seq for pair in early for e in pair})),
            )
        return self._judge(history, orphans, exits)

    def _judge(
        self, history: History, orphans: list[tuple[Event, Event]], exits: dict[tuple[str, int], Event]
    ) -> Verdict:
        over = max(e.t for e in history)
        seqs: list[int] = []
        open_: list[str] = []
        slowest = 0.0
        for agent, worker in orphans:
            name, pid = worker.get("member") or worker.source, worker.get("pid") or 0
            gone = exits.get((name, pid))
            seqs += [agent.seq, *([gone.seq] if gone else [])]
            outlived = (gone.t if gone else over) - agent.t
            if outlived > self.lease:
                fate = f"by {outlived:.1f} s" if gone else f"and was never seen to exit ({outlived:.1f} s on record)"
                return failed(
                    f"{name} (rank {worker.get('rank')}) outlived its agent {agent.get('member')} {fate}; "
                    f"the lease is {self.lease:g} s",
                    sorted({worker.seq, agent.seq, *([gone.seq] if gone else [])}),
                )
            if gone is None:
                open_.append(name)
            slowest = max(slowest, outlived)
        if open_:
            return unknown(f"the record ends before the lease of {listed(open_)} did", few(seqs))
        return passed(
            f"{counted(len(orphans), 'worker was', 'workers were')} gone at most {slowest:.2f} s after their agents",
            few(seqs),
        )


def _before(history: History, death: Event) -> list[tuple[Event, Event]]:
    """The workers that went after a fault had hit their agent, and not them, and before its exit was on record."""
    agent, node = death.get("member"), death.get("node")
    struck = [f for f in strikes(history) if agent in f.members and f.injecting.seq < death.seq]
    if not struck:
        return []
    fault = struck[-1]
    return [
        (gone, death)
        for gone in history.of("member.exited", role="worker", node=node)
        if fault.injecting.seq < gone.seq < death.seq and gone.get("member") not in fault.members
    ]
