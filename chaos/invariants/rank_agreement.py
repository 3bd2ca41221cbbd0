"""T13: all ranks agree on generation, outcome and hyper-state."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from chaos.api import Invariant
from chaos.history import Event, History
from chaos.training import few, lineage
from chaos.units import counted
from chaos.verdict import Verdict, failed, passed, unknown

_COMMON = ("model", "optimizer", "schedule", "data")  # parts that all ranks hold alike; the RNG is each rank's own


class RankAgreement(Invariant, frozen=True, kw_only=True):
    """All ranks of a group see one loss at every step, and hold one state at every cut and after every load."""

    id: ClassVar[str] = "T13"
    needs: ClassVar[tuple[str, ...]] = ("step.completed",)

    def check(self, history: History) -> Verdict:
        line = lineage(history)
        evidence: list[int] = []
        steps = 0
        for run in line.runs:
            for execution in run.values():
                said = [e.data.get("loss") for e in execution.ranks.values() if e.data.get("loss") is not None]
                if len(set(said)) > 1:
                    each = ", ".join(f"rank {r}: {e.get('loss')}" for r, e in sorted(execution.ranks.items()))
                    return failed(
                        f"the ranks of epoch {execution.group.epoch} disagree on the loss of step "
                        f"{execution.step}: {each}",
                        few([e.seq for e in execution.ranks.values()]),
                    )
                if len(said) > 1:
                    steps += 1
                    evidence.append(execution.last.seq)
        for kind in ("checkpoint.saved", "checkpoint.loaded", "state.resumed"):
            for cut in _cuts(history.of(kind)):
                if broken := _disagree(kind.rpartition(".")[2], cut):
                    return broken
                evidence += [e.seq for e in cut] if sum(bool(e.get("state")) for e in cut) > 1 else []
        if not evidence:
            return unknown("no two ranks did anything together")
        return passed(f"all ranks agreed at {counted(steps, 'step')}, every cut and every load", few(evidence))


def _cuts(events: Iterable[Event]) -> Iterable[list[Event]]:
    cuts: dict[tuple[Any, Any], list[Event]] = {}
    for event in events:
        cuts.setdefault((event.get("epoch"), event.get("generation")), []).append(event)  # live state: no generation
    return cuts.values()


def _disagree(verb: str, cut: list[Event]) -> Verdict | None:
    generation, epoch = cut[0].get("generation"), cut[0].get("epoch")
    what = f"step {cut[0].get('step')}" if generation is None else f"generation {generation}"
    views: dict[str, set[Any]] = {"step": {e.get("step") for e in cut}}
    for part in _COMMON:
        views[part] = {(e.get("state") or {}).get(part) for e in cut} - {None}
    if wrong := [name for name, seen in views.items() if len(seen) > 1]:
        return failed(
            f"the ranks of epoch {epoch} {verb} {what} with different {', '.join(wrong)}",
            few([e.seq for e in cut]),
        )
    return None
