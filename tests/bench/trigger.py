"""From an event of a member to a fault that stands, beside the bare way at the same time on the same machine."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from .figures import Figure, percentile
from .place import ROOT, Place, events, member, write
from .processes import SAID, BenchError, await_true, python, said, started

TICKS = 100
PERIOD = 0.08
BARE = {"call": "os.kill", "command": "`kill -STOP`"}


def measure(place: Place) -> Iterator[Figure]:
    """Event's own time stamp → all threads of the victim in state T, as recorded with the fault's proof."""
    folder = place.scratch("trigger")
    method = [
        {"name": f"s{n}", "fault": "process.freeze", "members": {"names": ["idle"]}, "hold": "20ms",
         "when": {"event": {"kind": "tick.happened", "where": {"n": n}}}}
        for n in range(1, TICKS + 1)
    ]  # fmt: skip
    members = [
        member("idle", "sleep", "600", ready="member.ready"),
        member("ticker", "tick", str(TICKS), str(PERIOD), ready="member.ready"),
    ]
    experiment = write(folder, members, method, ends="ticker")
    with ExitStack() as stack:
        process = stack.enter_context(started(place.run(experiment), folder=folder))
        ways = [stack.enter_context(_bare(place, way)) for way in BARE]
        process.wait(60)
        bare = dict(zip(BARE, (rounds() for rounds in ways), strict=True))
    ours = _ours(folder)
    for share, name in ((0.5, "p50"), (0.99, "p99")):
        mine = percentile(ours, share) * 1000
        for way, what in BARE.items():
            yield Figure(
                what=f"event → frozen: {name}", unit="ms", ours=mine,
                beside=percentile([r["event"] for r in bare[way]], share) * 1000, against=f"socket, {what}, poll",
                bound=3 if share > 0.5 else None, of_beside=True, note=f"{len(ours)} events",
            )  # fmt: skip


@contextmanager
def _bare(place: Place, way: str) -> Iterator[Callable[[], list[dict[str, float]]]]:
    """The bare way, running; the call waits for its end."""
    folder, ticker = place.scratch(f"trigger/{way}"), place.scratch(f"trigger/{way}/ticker")
    address = folder / "events"
    hear = python("-m", "tests.bench.bare", str(address), str(TICKS), way)
    tick = python("-m", "tests.bench.members", "tick", str(TICKS), str(PERIOD))
    path = {"PYTHONPATH": str(ROOT)}
    with started(hear, folder=folder, env=path) as listener:
        await_true(address.exists, f"the bare listener is up: {said(folder)}", 20)
        with started(tick, folder=ticker, env={**path, "CHAOS_EVENTS": str(address)}):

            def rounds() -> list[dict[str, float]]:
                listener.wait(60)
                found: list[dict[str, float]] = json.loads((folder / SAID).read_text())
                return found

            yield rounds


def _ours(folder: Path) -> list[float]:
    """Event → landed, for each step."""
    history = events(folder)
    ticks = {e.data["n"]: e.t for e in history if e.kind == "tick.happened"}
    landed = {e.source: e.t for e in history if e.kind == "fault.landed"}
    # On a busy machine one freeze may still stand when the next is due, which then is none.
    if len(landed) < 0.9 * TICKS:
        raise BenchError(f"{len(landed)} of {TICKS} freezes landed; {said(folder)}")
    return [landed[f"fault:s{n}"] - t for n, t in ticks.items() if f"fault:s{n}" in landed]
