"""What a job that makes no progress does instead."""

from __future__ import annotations

from typing import Any

from chaos.history import Event, History
from chaos.training import Roster, listed, strikes
from chaos.units import counted


def standstill(history: History, hung: Event, restarts: int = 3) -> tuple[str, list[Event]]:
    """What a job without progress did instead, with the events that show it: it died again and again, or it hung."""
    if deaths := relapses(history, restarts):
        who = deaths[0].get("member")
        return f"restart loop: {who} failed {counted(len(deaths), 'time')} in a row without a step in between", deaths
    alive = hung.get("alive") or ["nobody"]
    were = "was" if len(alive) == 1 else "were"
    said = f"no progress for {hung.get('seconds')} s while {listed(alive)} {were} alive; their stacks are in the logs"
    return f"hang of survivors: {said}", []


def relapses(history: History, restarts: int) -> list[Event]:
    """The failures of the member that failed most since the last step; none up to `restarts` that no fault explains.

    A process that dies before it can say who it is has no exit on record: the declarations count then.
    """
    last = history.last("step.completed")
    since, end = (last.seq if last else -1), history[-1].t
    roster, faults = Roster(history), strikes(history)
    found: dict[tuple[str, Any], list[Event]] = {}
    for event in history.of("member.exited", "failure.detected"):
        died = event.kind == "failure.detected" or (event.get("code") != 0 and not event.get("expected"))
        if event.seq > since and died:
            found.setdefault((event.kind, event.get("member")), []).append(event)
    longest: list[Event] = []
    for (_, member), events in found.items():
        own = [f for f in faults if member in roster.hit(f)]
        free = [e for e in events if not any(f.landed.t <= e.t <= f.stands(end) for f in own if not f.instant)]
        struck = sum(1 for f in own if f.instant and f.landed.seq > since)
        if len(free) - struck > max(restarts, len(longest) - 1):
            longest = free
    return longest
