"""Whether the steps on record are those of the groups on record: who tells of one tells of the other."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from chaos.history import History
from chaos.result import Check, Kind
from chaos.training import few, lineage
from chaos.verdict import Verdict, unknown


def checks(history: History) -> list[Check]:
    """One check where they contradict each other; none where they do not."""
    verdict = next(_doubts(history), None)
    return [] if verdict is None else [Check(name="steps on record", kind=Kind.RUN, verdict=verdict)]


def _doubts(history: History) -> Iterator[Verdict]:
    line, formed = lineage(history), history.of("group.formed")
    told = {event.seq for event in formed}
    for group in line.groups:
        run = line.ordered(group.index)
        if formed and group.seq not in told:
            yield unknown(
                f"steps of epoch {group.epoch} are on record, and nobody tells that its group was formed, nor what it "
                "began with",
                few([e.first.seq for e in run]),
            )
        for step in run:
            for event in step.ranks.values():
                world = event.get("world")
                if None not in (world, group.world) and world != group.world:
                    yield unknown(
                        f"rank {event.get('rank')} did step {step.step} in a group of {world}, and that of epoch "
                        f"{group.epoch} was formed of {group.world}",
                        (group.seq, event.seq),
                    )
    done = history.last("job.completed")
    if done is None or not line.lasting:
        return
    steps = [e.step for e in line.lasting]
    gap = max((b - a for a, b in pairwise(steps)), default=1)  # some tell of every tenth
    if (done.get("step") or 0) > steps[-1] + gap:
        yield unknown(
            f"the job is said to have been completed at step {done.get('step')}, and the last one on record is "
            f"{steps[-1]}",
            (line.lasting[-1].last.seq, done.seq),
        )
