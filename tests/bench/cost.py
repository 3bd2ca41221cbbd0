"""What the harness itself takes: processor time and memory, with four ranks and over a long run."""

from __future__ import annotations

from collections.abc import Iterator

from chaos.history import History
from chaos.journal import read

from .figures import Figure
from .place import Place, chaos, events, member, write
from .processes import BenchError, said, started, timed
from .trainer import trained, watch

RANKS = 4
LONG = 30_000  # steps of each rank
PERIOD = 0.0005
MIB = 80


def measure(place: Place) -> Iterator[Figure]:
    """The real trainer, then a target that only talks."""
    journal, seen = trained(place)
    moments = {e.kind: e.wall for e in read(journal) if e.kind in ("target.ready", "target.finished", "run.ended")}
    if "target.finished" not in moments:
        raise BenchError("the trainer did not finish")
    inside = [s for s in seen.samples if moments["target.ready"] <= s.wall <= moments["target.finished"]]
    if len(inside) < 5:
        raise BenchError(f"the trainer finished after {len(inside)} samples")
    first, last = inside[0], inside[-1]
    length = last.wall - first.wall
    note = f"{RANKS} ranks, over {length:.0f} s, lines to a file"
    runner = (last.runner_cpu - first.runner_cpu) / length
    helper = (last.helper_cpu - first.helper_cpu) / length
    yield Figure(
        what="cost: runner and supervisor, share of one core", unit="%", ours=(runner + helper) * 100, bound=5,
        note=f"{note}; supervisor {helper * 100:.2f}",
    )  # fmt: skip
    yield Figure(what="cost: the same a minute of run", unit="cpu s", ours=(runner + helper) * 60)
    yield Figure(what="memory: runner, peak while it runs", unit="MiB", ours=last.runner_peak, bound=MIB, note=note)
    # In a process of its own: the peak that the kernel tells of a runner is that of its largest descendant, a worker.
    again = timed(chaos("report", str(journal.parent)), folder=journal.parent)
    yield Figure(what="memory: judge and reports of that run, peak", unit="MiB", ours=again.peak, bound=MIB)
    trainer = [s.trainer for s in seen.samples if s.trainer]
    yield Figure(
        what="memory: trainer of four ranks, peak", unit="MiB", ours=max(trainer), note="sum of PSS, all members"
    )
    yield from _long(place)


def _long(place: Place) -> Iterator[Figure]:
    """Many events: the runner's memory must not know how long the run is."""
    folder = place.scratch("long")
    members = [
        member(f"rank-{r}", "train", str(LONG), str(PERIOD), str(r), str(RANKS), role="rank") for r in range(RANKS)
    ]
    experiment = write(folder, members, ends="rank")
    with started(place.run(experiment), folder=folder) as process:
        seen = watch(process)
    history = History(events(folder))
    talk = [e.wall for e in history if e.kind == "step.completed"]
    if not history.of("target.finished"):
        raise BenchError(f"the long run did not finish; {said(folder)}")
    inside = [s for s in seen.samples if talk[0] < s.wall <= talk[-1]]
    if len(inside) < 5:
        raise BenchError(f"the long run ended after {len(inside)} samples")
    early, late = inside[len(inside) // 4], inside[-1]
    count = sum(early.wall < wall <= late.wall for wall in talk)
    note = f"{len(history)} events in {talk[-1] - talk[0]:.0f} s"
    yield Figure(
        what="memory: long run, at its end", unit="MiB", ours=late.runner, beside=early.runner,
        against="at a quarter of it", bound=1.05, of_beside=True, note=note,
    )  # fmt: skip
    spent = late.runner_cpu - early.runner_cpu
    yield Figure(what="memory: long run, peak with judge and reports", unit="MiB", ours=seen.peak, note=note)
    yield Figure(what="cost: processor time an event", unit="µs", ours=spent / count * 1e6, note=note)
