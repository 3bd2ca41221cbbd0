"""How exactly actions happen at their planned moments: 20, half a second apart, at the same time as the peer's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path

from . import peer
from .figures import Figure, median, percentile
from .place import Place, events, member, write
from .processes import BenchError, said, started

ACTIONS = 20
PERIOD = 0.5


def measure(place: Place) -> Iterator[Figure]:
    """Error = when the injection began, minus when it was planned."""
    ours_at, theirs_at = place.scratch("schedule/ours"), place.scratch("schedule/peer")
    method = [
        {"name": f"s{n}", "fault": "process.freeze", "members": {"names": ["idle"]}, "hold": "50ms",
         "when": {"at": f"{n * PERIOD}s"}}
        for n in range(1, ACTIONS + 1)
    ]  # fmt: skip
    length = ACTIONS * PERIOD + 2
    experiment = write(ours_at, [member("idle", "sleep", str(length), ready="member.ready")], method, ends="idle")
    # The cheapest action that the peer has: a function call within its own process.
    nothing = {"type": "python", "module": "os", "func": "getpid"}
    theirs = peer.experiment(theirs_at, *(peer.action(f"s{n}", nothing, before=PERIOD) for n in range(ACTIONS)))
    with ExitStack() as stack:
        runs = [stack.enter_context(started(place.run(experiment), folder=ours_at))]
        if place.peer:
            runs.append(stack.enter_context(started(place.peer.command("run", str(theirs)), folder=theirs_at)))
        for process in runs:
            process.wait(60)
    mine = _ours(ours_at)
    its = _theirs(theirs_at) if place.peer else None
    note = f"{ACTIONS} actions every {PERIOD} s, both at the same time"
    beside = None if its is None else median([abs(e) for e in its]) * 1000
    yield Figure(
        what="schedule error: p99", unit="ms", ours=percentile([abs(e) for e in mine], 0.99) * 1000,
        beside=beside, against="peer's median", bound=1, of_beside=True, note=note,
    )  # fmt: skip
    yield Figure(
        what="schedule error: median", unit="ms", ours=median([abs(e) for e in mine]) * 1000, beside=beside,
        against="peer's median",
    )  # fmt: skip
    yield Figure(
        what="schedule error: drift over the run", unit="ms", ours=_drift(mine),
        beside=None if its is None else _drift(its), against="peer", note="last five minus first five, medians",
    )  # fmt: skip


def _drift(errors: list[float]) -> float:
    return (median(errors[-5:]) - median(errors[:5])) * 1000


def _ours(folder: Path) -> list[float]:
    history = events(folder)
    began = [e.t for e in history if e.kind == "method.started"]
    injected = {e.source: e.t for e in history if e.kind == "fault.injecting"}
    landed = [e for e in history if e.kind == "fault.landed"]
    if not began or len(landed) != ACTIONS:
        raise BenchError(f"{len(landed)} of {ACTIONS} actions landed; {said(folder)}")
    return [injected[f"fault:s{n}"] - began[0] - n * PERIOD for n in range(1, ACTIONS + 1)]


def _theirs(folder: Path) -> list[float]:
    """The peer has no time zero in its journal, so its first action counts as exact."""
    record = json.loads((folder / "journal.json").read_text())
    moments = [datetime.fromisoformat(action["start"]).timestamp() for action in record["run"]]
    if len(moments) != ACTIONS:
        raise BenchError(f"the peer ran {len(moments)} of {ACTIONS} actions")
    return [moment - moments[0] - n * PERIOD for n, moment in enumerate(moments)]
