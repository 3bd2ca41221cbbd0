"""Histories of a serving run written by hand: a tape on which a router, three replicas and their clients play."""

from __future__ import annotations

from typing import Any

from chaos.history import Event
from judge.histories import Tape

REPLICAS = 3
LIVE = {"critical": "live", "important": "live", "useful": "cached", "optional": "live"}
Tried = tuple[str, int]  # a replica, and what it answered


class Stack(Tape):
    """What was recorded so far of a serving run; requests come one after another unless `began` says otherwise."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0
        self.pids = {f"replica-{i}": 200 + i for i in range(REPLICAS)}

    # --- what a stack does

    def open(self, generation: int = 1) -> Stack:
        """Start all, until there is load."""
        homes = [("store", "store", "s0"), ("router", "router", "gw"), ("load", "load", "c0")]
        homes += [(f"replica-{i}", "replica", f"r{i}") for i in range(REPLICAS)]
        slots = [{"name": name, "role": role, "node": node, "rank": None} for name, role, node in homes]
        self.add("run.started", experiment="e", seed=7, slots=slots)
        self.publish(generation)
        for number, (name, role, node) in enumerate(homes):
            if role != "replica":
                self.add("member.started", name, member=name, role=role, node=node, pid=100 + number)
        for name in self.pids:
            self.boot(name, generation)
        self.add("serving.ready", "router", replicas=list(self.pids))
        self.add("load.started", "load", users=40, shape="steady", seconds=3.0)
        self.add("baseline.met")
        self.add("method.started")
        return self

    def publish(self, generation: int) -> int:
        self.add("model.published", "store", generation=generation, step=generation, digest=f"m{generation}")
        return self.add("checkpoint.committed", "store", generation=generation, step=generation,
                        digest=f"m{generation}", shards=["primary"])  # fmt: skip

    def boot(self, name: str, generation: int = 1) -> int:
        """A process of a replica, until its health is known to be good; the number of the last event."""
        self.pids[name] += 10
        self.add("member.started", name, member=name, role="replica", node=f"r{name[-1]}", pid=self.pids[name])
        self.ready(name, generation)
        for level in ("live", "ready", "correct"):
            self.health(name, level, up=True)
        return self.count

    def ready(self, name: str, generation: int = 1, **more: Any) -> int:
        self.add("replica.loading", name, replica=name, generation=generation)
        facts: dict[str, Any] = {"replica": name, "generation": generation, "digest": f"m{generation}", "address": "a"}
        return self.add("replica.ready", name, **facts | more)

    def health(self, name: str, level: str, *, up: bool) -> int:
        return self.add("health.changed", "router", replica=name, level=level, up=up, reason="")

    def copy(self) -> Stack:
        """Another tape with the same record, to go on otherwise."""
        other = Stack()
        other.events, other.t, other.count = list(self.events), self.t, self.count
        other.asked, other.pids = self.asked, dict(self.pids)
        return other

    def eject(self, name: str, reason: str = "health") -> int:
        return self.add("replica.ejected", "router", replica=name, reason=reason, errors=1.0)

    def back(self, name: str) -> int:
        return self.add("replica.returned", "router", replica=name, reason="health", errors=0.0)

    def ask(
        self, *tried: Tried, status: int | None = None, seconds: float = 0.01, queued: float = 0.0,
        late: float = 0.0, began: float | None = None, **more: Any,
    ) -> str:  # fmt: skip
        """One request: sent, tried, and ended with what the last attempt said; its id. None ends it never."""
        self.asked += 1
        id, t0 = f"q{self.asked}", self.t if began is None else began
        facts: dict[str, Any] = {"id": id, "what": "rank", "priority": "normal", "deadline": 1.0, "wrong": False}
        facts |= {k: more.pop(k) for k in (*facts, "session", "turn") if k in more}
        prompt = {"prompt": more.pop("prompt", 6)} if facts["what"] == "generate" else {}
        self.add("request.sent", "load", at=t0, **facts, **prompt)
        t = t0 + late + queued  # `late`: its client kept it back
        for number, (replica, answer) in enumerate(tried, start=1):
            t += seconds
            extra = {"queued": queued} if number == 1 else {}
            extra |= {"draining": True} if answer == -503 else {}
            streamed = more.get("streamed", 0) if number < len(tried) else more.get("tokens") or 0
            self.add("attempt.completed", "router", at=t, id=id, replica=replica, attempt=number, status=abs(answer),
                     seconds=seconds, streamed=streamed, **extra)  # fmt: skip
        more.pop("streamed", None)
        self.t = max(self.t, t)
        ended = tried[-1][1] if status is None else status
        if ended < 0:
            return id
        whole: dict[str, Any] = {"replica": tried[-1][0], "generation": 1, "right": True}
        whole |= {"digest": f"m{more.get('generation', 1)}"} if more.get("generation", 1) else {}
        whole |= {} if facts["what"] == "generate" else {"tier": "primary", "features": LIVE}
        done = facts | {"status": ended, "latency": t - t0, "attempts": len(tried)} | (whole if ended == 200 else {})
        self.add("request.completed", "load", at=max(t, t0) + 0.0005, **done | more)
        return id

    def serve(self, count: int = 30, *names: str, every: float = 0.05, **more: Any) -> Stack:
        """So many requests, all well, in turns at these replicas, at all when none is named."""
        asked = names or tuple(self.pids)
        for i in range(count):
            self.wait(every)
            self.ask((asked[i % len(asked)], 200), **more)
        return self

    def stream(self, *tried: Tried, tokens: int = 24, wanted: int = 24, **more: Any) -> str:
        """One turn of a session."""
        facts: dict[str, Any] = {
            "what": "generate", "deadline": 8.0, "session": "s1", "turn": 0, "tokens": tokens, "wanted": wanted,
            "missing": [], "repeated": [], "first": 0.03, "gap": 0.03, "resumed": None, "recomputed": 0,
            "seconds": 0.5, "tier": None,
        }  # fmt: skip
        return self.ask(*tried, **facts | more)

    def shed(self, reason: str = "queue", waited: float = 0.0, **more: Any) -> str:
        """A request that is refused."""
        self.asked += 1
        facts: dict[str, Any] = {"id": f"q{self.asked}", "what": "rank", "deadline": 1.0, "priority": "low"}
        began = more.pop("began", self.t)
        facts |= more
        self.add("request.sent", "load", at=began, **facts)
        self.t = max(self.t, began + waited)
        self.add("request.shed", "router", at=began + waited, id=facts["id"], priority=facts["priority"],
                 reason=reason, waited=waited)  # fmt: skip
        self.add("request.completed", "load", at=began + waited, **facts, status=429, latency=waited, attempts=0)
        return str(facts["id"])

    def usage(self, name: str, **more: Any) -> int:
        facts = {"in_flight": 0, "queue": 0, "sessions": 1, "blocks": 4, "held": 4, "rss": 400 << 20}
        return self.add("replica.usage", name, replica=name, **facts | more)

    # --- what breaks it

    def kill(self, name: str, code: int = -9) -> int:
        """A replica dies; the number of its exit."""
        self.fault("process.kill", name)
        return self.exit(name, code)

    def exit(self, name: str, code: int) -> int:
        return self.add("member.exited", member=name, role="replica", node=f"r{name[-1]}", rank=None,
                        pid=self.pids[name], code=code)  # fmt: skip

    def parted(self, *sides: list[str]) -> int:
        """A partition between groups of nodes."""
        facts: dict[str, Any] = {"kind": "network.partition", "members": [], "nodes": [n for s in sides for n in s]}
        self.add("fault.armed", "fault:network.partition", kind="network.partition")
        self.add("fault.injecting", "fault:network.partition", **facts, sides=list(sides))
        return self.add("fault.landed", "fault:network.partition", **facts, sides=list(sides), instant=False,
                        evidence={"dropped": 1})  # fmt: skip

    def close(self) -> Stack:
        ended = [e for e in self.events if e.kind == "request.completed"]
        self.add("load.ended", "load", requests=len(ended), failures=sum(map(_failure, ended)))
        self.add("target.finished", code=0, member="load")
        self.add("final.started")
        self.add("run.ended", reason="finished")
        return self


def _failure(completed: Event) -> bool:
    wanted = 400 if completed.get("wrong") else 200
    torn = completed.get("missing") or completed.get("repeated")
    return completed.get("status") != wanted or completed.get("right") is False or bool(torn)


def control() -> Stack:
    """A run in which nothing is broken."""
    stack = Stack().open().serve(60)
    stack.stream(("replica-0", 200))
    for name in stack.pids:
        stack.usage(name)
    return stack.close()


def killed_and_back() -> Stack:
    """Replica 1 is killed with a stream, everything is as it should be, and it comes back as a new process."""
    stack = Stack().open().serve(30)
    for name in stack.pids:
        stack.usage(name)
    stack.kill("replica-1")
    began = stack.t - 0.3
    stack.ask(("replica-1", 0), ("replica-0", 200))
    stack.wait(0.01).eject("replica-1", "connection")
    for level in ("live", "ready", "correct"):
        stack.health("replica-1", level, up=False)
    stack.add("session.resumed", "replica-2", replica="replica-2", session="s1", turn=0, way="replica", recomputed=0,
              computed=1, seconds=0.02)  # fmt: skip
    stack.stream(("replica-1", 0), ("replica-2", 200), streamed=9, resumed="replica", gap=0.4, began=began)
    stack.add(
        "ladder.moved", "router", before="primary", after="secondary", reason="queue", p99=0.3, errors=0.0, queue=9
    )
    stack.serve(40, "replica-0", "replica-2", tier="secondary")
    stack.add(
        "ladder.moved", "router", before="secondary", after="primary", reason="calm", p99=0.01, errors=0.0, queue=0
    )
    stack.serve(20, "replica-0", "replica-2")
    stack.boot("replica-1")
    stack.back("replica-1")
    stack.serve(60)
    for name in stack.pids:
        stack.usage(name)
    return stack.close()
