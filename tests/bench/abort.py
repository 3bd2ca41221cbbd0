"""How soon an abort takes effect while something long goes on: from the signal, or from the sample that asks for it."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

from . import peer
from .figures import Figure, percentile
from .place import Place, events, member, write
from .processes import BenchError, await_true, command_line, descendants, said, started, state

ROUNDS = 5
GOAL = 250
HELD = {
    "name": "held",
    "fault": "process.freeze",
    "members": {"names": ["idle"]},
    "when": {"at": "200ms"},
    "hold": "60s",
}

SLOW = {
    "name": "slow",
    "fault": "process.preempt",
    "members": {"names": ["deaf"]},
    "when": {"at": "200ms"},
    "grace": "60s",
}
LATE = {"name": "late", "role": "late", "node": "n0"}


def measure(place: Place) -> Iterator[Figure]:
    """Worst of a few rounds."""
    healed, ended = zip(*(_signal(place.scratch(f"abort/signal-{n}"), place) for n in range(ROUNDS)), strict=True)
    theirs = [_peer(place.scratch(f"abort/peer-{n}"), place.peer) for n in range(ROUNDS)] if place.peer else []
    note = f"worst of {ROUNDS}; a freeze of 60 s stands"
    beside = percentile(theirs, 1) * 1000 if theirs else None
    yield Figure(
        what="abort: SIGINT → healed", unit="ms", ours=percentile(healed, 1) * 1000, bound=GOAL, beside=beside,
        against="peer's exit", note=note,
    )  # fmt: skip
    yield Figure(
        what="abort: SIGINT → exit", unit="ms", ours=percentile(ended, 1) * 1000, beside=beside, against="peer's exit",
        note="ours stops the target, judges and reports; the peer ends its action, `sleep 60`",
    )  # fmt: skip
    amid = [_injecting(place.scratch(f"abort/injecting-{n}"), place) for n in range(ROUNDS)]
    yield Figure(
        what="abort: SIGINT amid an injection → over", unit="ms", ours=percentile(amid, 1) * 1000, bound=GOAL,
        note=f"worst of {ROUNDS}; a preemption waits for its grace of 60 s",
    )  # fmt: skip
    asked = [_hypothesis(place.scratch(f"abort/hypothesis-{n}"), place) for n in range(ROUNDS)]
    yield Figure(
        what="abort: sample beyond its bound → healed", unit="ms", ours=percentile(asked, 1) * 1000, bound=GOAL,
        note=f"worst of {ROUNDS}; the peer has no abort by a probe while an action runs",
    )  # fmt: skip


def _signal(folder: Path, place: Place) -> tuple[float, float]:
    """Seconds from SIGINT until the frozen member runs again, and until our process has gone."""
    experiment = write(folder, [member("idle", "sleep", "600", ready="member.ready")], [HELD])
    with started(place.run(experiment), folder=folder) as process:
        await_true(lambda: _frozen(process.pid) is not None, f"the freeze stands: {said(folder)}", 20)
        victim = _frozen(process.pid)
        assert victim is not None
        asked = time.monotonic()
        process.send_signal(signal.SIGINT)
        await_true(lambda: state(victim) != "T", "the freeze is healed", 10, every=0.0005)
        healed = time.monotonic() - asked
        process.wait(20)
        return healed, time.monotonic() - asked


def _frozen(runner: int) -> int | None:
    """The member that stands still."""
    members = (pid for pid in descendants(runner) if "tests.bench.members" in command_line(pid))
    return next((pid for pid in members if state(pid) == "T"), None)


def _injecting(folder: Path, place: Place) -> float:
    """Seconds from SIGINT, while a preemption waits for a member that ignores SIGTERM, until that member has gone."""
    experiment = write(folder, [member("deaf", "deaf", "600", ready="member.ready")], [SLOW])
    with started(place.run(experiment), folder=folder) as process:
        await_true(lambda: _waits(folder), f"the preemption waits: {said(folder)}", 20)
        victim = next(pid for pid in descendants(process.pid) if "tests.bench.members" in command_line(pid))
        asked = time.monotonic()
        process.send_signal(signal.SIGINT)
        await_true(lambda: state(victim) in "XZ", "the preemption is over", 10, every=0.0005)
        return time.monotonic() - asked


def _waits(folder: Path) -> bool:
    return any(b'"fault.injecting"' in journal.read_bytes() for journal in folder.glob("runs/*/journal.jsonl"))


def _hypothesis(folder: Path, place: Place) -> float:
    """Seconds from the sample that asks for the abort until the fault was healed, by the journal."""
    members = [
        member("idle", "sleep", "600", ready="member.ready"),
        member("early", "become", "late", "1", ready="member.ready"),
    ]
    bound = {"probe": "process.alive", "role": "late", "every": "50ms", "at-most": 0}
    experiment = write(folder, members, [HELD], announced=[LATE], abort=[bound])
    with started(place.run(experiment), folder=folder) as process:
        process.wait(30)
    history = events(folder)
    landed = next((e.seq for e in history if e.kind == "fault.landed"), None)
    asked = next((e.t for e in history if e.kind == "probe.sampled" and e.get("value") == 1), None)
    healed = next((e.t for e in history if e.kind == "fault.healed"), None)
    if landed is None or asked is None or healed is None:
        raise BenchError(f"no abort while the fault stood; {said(folder)}")
    return healed - asked


def _peer(folder: Path, known: peer.Peer) -> float:
    """Seconds from SIGINT until the peer has gone; its long action is a process that sleeps."""
    long = peer.action("long", {"type": "process", "path": "sleep", "arguments": "60"})
    file = peer.experiment(folder, long)
    with started(known.command("run", str(file)), folder=folder) as process:
        await_true(lambda: _sleeps(process.pid), "the action runs", 20)
        asked = time.monotonic()
        process.send_signal(signal.SIGINT)
        process.wait(90)
        return time.monotonic() - asked


def _sleeps(runner: int) -> bool:
    return any(Path(word).name == "sleep" for pid in descendants(runner) for word in command_line(pid)[:1])
