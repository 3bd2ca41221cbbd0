"""T3: restored state comes from exactly one generation."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, ClassVar

from chaos.api import Invariant
from chaos.history import Event, History
from chaos.training import few, lineage, listed
from chaos.verdict import Verdict, failed, passed, unknown


class OneGeneration(Invariant, frozen=True, kw_only=True):
    """In one incarnation of the group, all ranks restore one generation, and all bytes they read are of that one.

    A rank that loads again within an incarnation (a round one generation further back) is judged by its last load, and
    ranks that disagree break the promise only when the group then goes on: to notice and refuse is right. A rank that
    works in such a group and does not say what it restored leaves the question open.
    """

    id: ClassVar[str] = "T3"
    needs: ClassVar[tuple[str, ...]] = ("checkpoint.loaded",)

    def check(self, history: History) -> Verdict:
        reads: dict[str, list[Event]] = {}
        rounds: dict[tuple[Any, int], dict[Any, Event]] = {}
        incarnation = 0  # epochs may be re-used by a target that is wrong
        for event in history.of("checkpoint.loading", "checkpoint.shard_read", "checkpoint.loaded", "group.forming"):
            if event.kind == "group.forming":
                incarnation += 1
            elif event.kind == "checkpoint.loading":
                reads[event.source] = []
            elif event.kind == "checkpoint.shard_read":
                reads.setdefault(event.source, []).append(event)
            else:
                generation = event.get("generation")
                foreign = [e for e in reads.get(event.source, ()) if e.get("generation") != generation]
                if foreign:
                    return failed(
                        f"rank {event.get('rank')} restored generation {generation} with bytes of generation "
                        f"{foreign[0].get('generation')} ({foreign[0].get('name')}), epoch {event.get('epoch')}",
                        (*few([e.seq for e in foreign]), event.seq),
                    )
                rounds.setdefault((event.get("epoch"), incarnation), {})[event.get("rank")] = event
        evidence: list[int] = []
        for (epoch, _), loads in rounds.items():
            if broken := _mixed(history, epoch, loads.values()):
                return broken
            if any(e.get("generation") for e in loads.values()):
                evidence += [e.seq for e in loads.values()]
        if not evidence:
            return unknown("nothing was restored from a checkpoint")
        if silent := _silent(history, rounds):
            return unknown(
                f"nobody knows what was restored by {listed(silent)}: it went on without a word", few(evidence)
            )
        return passed("every group that went on had restored one generation on all of its ranks", few(evidence))


def _silent(history: History, rounds: Mapping[tuple[Any, int], Mapping[Any, Event]]) -> list[str]:
    """Ranks that worked in a group that had restored something, and never said what they restored."""
    spoke = {(epoch, rank) for (epoch, _), loads in rounds.items() for rank in loads}
    line = lineage(history)
    return [
        f"rank {rank} (epoch {group.epoch})"
        for group in line.groups
        if group.generation and not group.live
        for rank in sorted({r for e in line.ordered(group.index) for r in e.ranks}, key=str)
        if (group.epoch, rank) not in spoke
    ]


def _mixed(history: History, epoch: Any, loads: Collection[Event]) -> Verdict | None:
    by_cut: dict[Any, list[Event]] = {}
    for load in loads:
        by_cut.setdefault((load.get("generation"), load.get("step")), []).append(load)
    last = max(e.seq for e in loads)
    if len(by_cut) > 1 and (step := history.first("step.completed", after=last, epoch=epoch)):
        parts = "; ".join(
            f"ranks {sorted(e.get('rank') for e in part)} generation {generation} (step {at})"
            for (generation, at), part in by_cut.items()
        )
        return failed(f"the group of epoch {epoch} went on with mixed state: {parts}", (*_seqs(loads), step.seq))
    models = {(load.get("state") or {}).get("model") for load in loads} - {None}
    if len(by_cut) == 1 and len(models) > 1 and (step := history.first("step.completed", after=last, epoch=epoch)):
        ((generation, _),) = by_cut
        return failed(
            f"the ranks of epoch {epoch} hold {len(models)} different models though all say generation {generation}",
            (*_seqs(loads), step.seq),
        )
    return None


def _seqs(events: Collection[Event]) -> tuple[int, ...]:
    return few([e.seq for e in events])
