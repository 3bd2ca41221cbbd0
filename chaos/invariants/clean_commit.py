"""T14: a wrong value never reaches a committed checkpoint."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

from chaos.api import Invariant
from chaos.history import Event, History
from chaos.training import few
from chaos.units import counted
from chaos.verdict import Verdict, failed, passed, unknown

_STATE = ("weight", "moment")  # sites whose values outlive the step: computing it again does not help

Place = tuple[Any, Any, Any]  # epoch, step, rank


class _Taint(NamedTuple):
    """Why the state after a step is wrong."""

    step: int
    reason: str
    evidence: tuple[int, ...]


class CleanCommit(Invariant, frozen=True, kw_only=True):
    """No committed generation holds the result of a step whose loss is no number, or that a fault had changed.

    A fault that hit a value of a step (`hook.hit`) has changed it where the step counts with the attempt, and the read
    of its batch, that was hit; a hit in the state itself, where any step counts that began after it. A step that was
    computed again, or whose batch was left out, is clean. What a hit changed after the step (a canary, a copy on its
    way to the store) is a matter of the restore.
    """

    id: ClassVar[str] = "T14"
    needs: ClassVar[tuple[str, ...]] = ("step.completed", "checkpoint.committed")

    def check(self, history: History) -> Verdict:
        hits: dict[Place, list[Event]] = {}
        for hit in history.of("hook.hit"):
            where = hit.get("where") or {}
            if "phase" not in where and "step" in where:
                hits.setdefault((where.get("epoch"), where["step"], where.get("rank")), []).append(hit)
        taints = _taints(history, hits)
        begun: dict[Any, Any] = {e.get("generation"): e.get("epoch") for e in history.of("checkpoint.begun")}
        evidence: list[int] = []
        for commit in history.of("checkpoint.committed"):
            epoch = begun.get(commit.get("generation"), commit.get("epoch"))
            step = commit.get("step")
            if step is None:
                continue
            for taint in taints.get(epoch, ()):
                if taint.step <= step:
                    return failed(
                        f"generation {commit.get('generation')} (step {step}) was committed with a wrong value in it: "
                        f"{taint.reason}",
                        sorted({*taint.evidence, commit.seq}),
                    )
            evidence.append(commit.seq)
        if not evidence:
            return unknown("nothing was committed")
        if not history.first("step.completed"):
            return unknown("no step is on record")
        if all(done.get("loss") is None for done in history.of("step.completed")):
            return unknown("no step tells its loss", few(evidence))
        caught = sum(map(len, hits.values()))
        said = f"; {counted(caught, 'wrong value was', 'wrong values were')} kept out of them" if caught else ""
        return passed(f"{counted(len(evidence), 'commit')}, of finite steps only{said}", few(evidence))


def _taints(history: History, hits: Mapping[Place, list[Event]]) -> dict[Any, list[_Taint]]:
    """The steps of each epoch whose result is wrong, and was taken."""
    found: dict[Any, list[_Taint]] = {}
    for done in history.of("step.completed"):
        epoch, step, rank = done.get("epoch"), done.get("step"), done.get("rank")
        if step is None:
            continue
        if not _finite(done.get("loss")):
            reason = f"the loss of step {step} is {done.get('loss')}"
            found.setdefault(epoch, []).append(_Taint(step, reason, (done.seq,)))
        for hit in hits.get((epoch, step, rank), ()):
            if _counts(hit, done):
                reason = f"the {hit.get('site')} of rank {rank} was hit in step {step}, and its result was taken"
                found.setdefault(epoch, []).append(_Taint(step, reason, (hit.seq, done.seq)))
    return found


def _counts(hit: Event, done: Event) -> bool:
    """Whether what was hit is in the result of that step."""
    if hit.get("site") in _STATE:
        return True
    if done.get("quarantined") or done.get("loss") is None:
        return False
    where = hit.get("where")
    return all(where.get(name, first) == done.get(name, first) for name, first in (("attempt", 0), ("read", 1)))


def _finite(loss: Any) -> bool:
    try:
        return loss is None or math.isfinite(float(loss))
    except (TypeError, ValueError):
        return True  # no number at all: nothing to say about it
