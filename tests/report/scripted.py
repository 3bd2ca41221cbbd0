"""Histories and results written by hand, for the reports."""

from __future__ import annotations

from typing import Any

from chaos.errors import Exit
from chaos.history import Event
from chaos.result import Check, Efficiency, Kind, Need, Recovery, Result
from chaos.verdict import Outcome, Verdict, passed


class Script:
    """Writes events in order; a call adds one."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def __call__(self, t: float, source: str, kind: str, /, **data: Any) -> Event:
        event = Event(seq=len(self.events), t=t, wall=1_700_000_000 + t, source=source, kind=kind, data=data)
        self.events.append(event)
        return event


def partition_run(*, nodes: int = 3, steps: int = 60) -> list[Event]:
    """A run in which n{last} is cut off at 6 s, the group shrinks, and grows back after the heal at 14 s."""
    tell = Script()
    last = f"worker-n{nodes - 1}"
    tell(0.0, "harness", "run.started", experiment="cut", seed=7, version="0.1", settings={"nodes": nodes}, python="3")
    tell(0.1, "harness", "target.starting")
    tell(0.5, "store", "member.started", member="store", role="store", node="s0", rank=None, pid=10)
    for i in range(nodes):
        who = f"worker-n{i}"
        tell(1.0, who, "member.started", member=who, role="worker", node=f"n{i}", rank=i, pid=100 + i)
    tell(1.2, "c-0", "job.started", steps=steps, dataset=1000, batch=12, checkpoint_every=20, seed=7)
    tell(1.5, "c-0", "group.formed", epoch=1, world=nodes, nodes=[f"n{i}" for i in range(nodes)], generation=0, step=0)
    tell(1.5, "harness", "target.ready")
    tell(1.6, "harness", "method.started")
    step, t, epoch, world = 0, 2.0, 1, nodes
    while step < steps:
        step += 1
        for rank in range(world):
            samples = list(range(12 // world))
            fields: dict[str, Any] = {"step": step, "rank": rank, "world": world, "epoch": epoch, "samples": samples}
            tell(t + rank / 1000, f"worker-n{rank}", "step.completed", loss=repr(5.0 / step), **fields)
        if step % 20 == 0 and epoch == 1:
            tell(t + 0.05, "store", "checkpoint.committed", generation=step // 20, step=step, epoch=epoch, shards=[])
        tell(t + 0.06, "probe:training.throughput", "probe.sampled", value=12 / 0.1)
        t += 0.1
        if step == 40 and epoch == 1:
            t, epoch, world, step = _cut(tell, t, last, nodes)
    tell(t, "c-1", "job.completed", step=steps, loss="0.1")
    tell(t + 0.1, last, "member.exited", member=last, role="worker", node="n2", rank=2, pid=102, code=-9)
    tell(t + 0.2, "harness", "target.finished", code=0, member="c-1")
    tell(t + 0.3, "harness", "run.ended", reason="finished")
    return tell.events


def _cut(tell: Script, t: float, last: str, nodes: int) -> tuple[float, int, int, int]:
    fault = "fault:network.partition"
    tell(t, fault, "fault.injecting", members=[last], nodes=[f"n{nodes - 1}"], trigger=None)
    sides = [[f"n{nodes - 1}"], ["s0", *(f"n{i}" for i in range(nodes - 1))]]
    everyone = ["store", *(f"worker-n{i}" for i in range(nodes))]
    whom = {"members": everyone, "nodes": sides[0] + sides[1], "sides": sides}
    proof = {"sent": 3, "dropped": 3}
    tell(t + 0.1, fault, "fault.landed", **{"kind": "network.partition", **whom, "evidence": proof})
    tell(t + 2.0, "c-1", "failure.detected", **{"member": last, "class": "partition", "reason": "silent"})
    tell(t + 2.5, "c-1", "group.formed", epoch=2, world=nodes - 1, nodes=["n0", "n1"], generation=2, step=40)
    for rank in range(nodes - 1):
        tell(t + 3.0, f"worker-n{rank}", "checkpoint.loaded", generation=2, step=40, rank=rank, world=2, epoch=2)
    tell(t + 4.0, fault, "fault.healed", kind="network.partition", evidence={"passed": 3}, seconds=3.9)
    return t + 4.1, 2, nodes - 1, 40


def result_of(events: list[Event], *checks: Check, outcome: Outcome = Outcome.PASS) -> Result:
    """A result over these events with a few checks of each kind, and those given."""
    landed = next(e for e in events if e.kind == "fault.landed")
    base = (
        check("run complete", Kind.RUN, passed("the run ended: finished", [events[-1].seq])),
        check("training.throughput", Kind.HYPOTHESIS, passed("118 samples/s, at least 84", [landed.seq - 2])),
        check("network.partition", Kind.FAULT, passed("landed and healed", [landed.seq])),
        check("rto.total", Kind.BUDGET, passed("4.1 s of 30 s", [landed.seq]), value=4.1, limit=30.0, unit="s"),
        check("rto.detect", Kind.BUDGET, passed("1.9 s of 6 s", [landed.seq]), value=1.9, limit=6.0, unit="s"),
        check("rpo.steps", Kind.BUDGET, passed("0 of 20", [landed.seq]), value=0, limit=20, unit="steps"),
        check("fenced-writer", Kind.INVARIANT, passed("1 stale write was refused", [landed.seq]), id="T9"),
    )
    recovery = Recovery(
        need=Need.FAILURE, faults=("network.partition",), members=("worker-n2",), began=landed.t, complete=True,
        epoch=2, world=(3, 2), formations=1, detect=1.9, restart=0.5, load=0.5, warmup=1.2, total=4.1, resume=4.0,
        catch_up=4.1, frontier=40, restored=40, generation=2, lost_steps=0, lost_samples=0, lost_seconds=0.1,
        lost_member_seconds=12.3,
    )  # fmt: skip
    return Result(
        experiment="cut", title="A partition loses nothing", outcome=outcome, exit=Exit(int(outcome is Outcome.FAIL)),
        headline="every promise held", checks=base + checks, seed=7, seconds=events[-1].t, started=1_700_000_000.0,
        recoveries=(recovery,), efficiency=Efficiency(wall=12.0, goodput=0.71, ettr=0.68, lasting_steps=60),
    )  # fmt: skip


def check(name: str, kind: Kind, verdict: Verdict, *, id: str = "", **measured: Any) -> Check:
    """A check in one line."""
    return Check(name=name, kind=kind, verdict=verdict, id=id, measured=measured)


def serving_run() -> list[Event]:
    """Ten seconds of a hundred rankings a second and some streams; replica-1 is dead from 4 to 7 s.

    For half a second of it nothing is answered, then answers come from the secondary model and some requests are shed.
    """
    tell = Script()
    tell(0.0, "harness", "run.started", experiment="kill", seed=7, version="0.1", settings={}, python="3")
    for name in ("router", "replica-0", "replica-1"):
        tell(0.1, name, "member.started", member=name, role=name.partition("-")[0], node="", pid=1)
    tell(0.2, "load", "load.started", users=40, shape="steady", seconds=10.0)
    for i in range(1000):
        begun = 0.2 + i / 100
        tell(begun, "load", "request.sent", id=f"r{i}", what="rank", wrong=False, deadline=1.0)
        if i == 400:
            fault = {"kind": "process.kill", "members": ["replica-1"], "evidence": {"signal": 9}}
            tell(4.2, "fault:process.kill", "fault.landed", **fault)
            tell(4.5, "router", "replica.ejected", replica="replica-1", reason="connection", errors=1.0)
            tell(4.6, "router", "ladder.moved", before="primary", after="secondary", reason="p99", p99=0.4)
        request_ended(tell, f"r{i}", begun, i)
    tell(7.4, "fault:process.kill", "fault.healed", kind="process.kill", seconds=0.1)
    for turn in range(5):
        stream = {"id": f"s{turn}.0", "what": "generate", "status": 200, "deadline": 8.0, "first": 0.03, "tokens": 24}
        tell(2.0 * turn + 1.5, "load", "request.completed", latency=0.6, right=True, **stream)
    tell(10.5, "load", "load.ended", requests=1005, failures=50, p50=0.01, p99=1.0)
    tell(10.6, "harness", "run.ended", reason="finished")
    return tell.events


def request_ended(tell: Script, name: str, begun: float, i: int) -> None:
    """Request number `i` of `serving_run`."""
    live = {"critical": "live", "important": "live"}
    data: dict[str, Any] = {"status": 200, "latency": 0.01, "tier": "primary", "features": live, "right": True}
    if 400 <= i < 450:
        data = {"status": 0, "latency": 2.0, "error": "timeout"}
    elif 450 <= i < 700 and i % 10 == 0:
        data = {"status": 429, "latency": 0.001}
    elif 450 <= i < 700:
        data |= {"tier": "secondary", "latency": 0.05}
    elif 700 <= i < 800:
        data |= {"features": live | {"important": "default"}}
    elif i == 900:
        data |= {"latency": 0.7}
    fields = {"id": name, "what": "rank", "deadline": 1.0, "wrong": False} | data
    tell(begun + data["latency"], "load", "request.completed", **fields)
