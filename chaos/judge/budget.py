"""The budget: what the recoveries cost against what they may cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from chaos.experiment import Budget
from chaos.history import History
from chaos.result import Check, Kind, Need, Recovery
from chaos.training import few
from chaos.verdict import Verdict, failed, passed, unknown

RPO = {"steps": "steps", "samples": "samples", "seconds": "s"}
RTO = {"total": "s", "detect": "s", "restart": "s", "load": "s", "warmup": "s"}


def checks(budget: Budget, history: History, recoveries: Sequence[Recovery]) -> list[Check]:
    """One check for each figure that the budget bounds; the worst recovery of the run is judged."""
    found = []
    for field, unit in RPO.items():
        if (limit := getattr(budget.rpo, field, None)) is not None:
            found.append(_check(f"rpo.{field}", unit, limit, recoveries, _lost(history, field, unit, limit)))
    for field, unit in RTO.items():
        if (limit := getattr(budget.rto, field, None)) is not None:
            timed = [r for r in recoveries if r.need is not Need.PLANNED]
            found.append(_check(f"rto.{field}", unit, limit, timed, _took(history, field, limit)))
    return found


def _check(
    name: str, unit: str, limit: float, recoveries: Sequence[Recovery], judge: Callable[[Recovery], Verdict]
) -> Check:
    values = [v for r in recoveries if (v := value(r, name)) is not None]
    measured: dict[str, Any] = {"limit": limit, "unit": unit, **({"value": max(values)} if values else {})}
    return Check(name=name, kind=Kind.BUDGET, verdict=_worst(recoveries, judge), measured=measured)


def value(recovery: Recovery, name: str) -> float | None:
    """The figure of a recovery by its name in the budget, such as `rto.detect`.

    Where no recovery was needed, the time until the first step beyond the frontier is the total.
    """
    family, field = name.split(".")
    if family == "rto" and recovery.need is Need.NONE:
        return {"total": recovery.resume, "detect": recovery.detect}.get(field)
    figure: float | None = getattr(recovery, field if family == "rto" else f"lost_{field}")
    return figure


def _worst(recoveries: Sequence[Recovery], judge: Callable[[Recovery], Verdict]) -> Verdict:
    if not recoveries:
        return unknown("no recovery was needed or measured")
    verdicts = [judge(r) for r in recoveries]
    for outcome in ("fail", "unknown"):
        for verdict in verdicts:
            if verdict.outcome.value == outcome:
                return verdict
    reasons = list(dict.fromkeys(v.reason for v in verdicts))
    return passed("; ".join(reasons), few([s for v in verdicts for s in v.evidence]))


def _cut_short(history: History) -> bool:
    """Whether the record ends for a reason that says nothing about the target."""
    ended = history.last("run.ended")
    return ended is None or ended.get("reason") in ("interrupted", "error", "abort")


def _seqs(recovery: Recovery) -> tuple[int, ...]:
    return few(list(recovery.evidence.values()))


def _after(recovery: Recovery) -> str:
    return ", ".join(recovery.faults) or recovery.need.value


def _lost(history: History, field: str, unit: str, limit: float) -> Callable[[Recovery], Verdict]:
    def judge(recovery: Recovery) -> Verdict:
        lost = value(recovery, f"rpo.{field}")
        what = f"{_after(recovery)}:"
        if lost is None:
            if _cut_short(history):
                return unknown(f"{what} the record ends before anything was restored", _seqs(recovery))
            why = "nothing was restored" if recovery.restored is None else "it cannot be measured"
            return failed(f"{what} the loss is unknown: {why}", _seqs(recovery))
        cut = f"frontier {recovery.frontier}, restored {recovery.restored}"
        if lost < 0:
            return failed(
                f"{what} a loss of {lost:g} {unit} ({cut}): restored work that was never done", _seqs(recovery)
            )
        if lost > limit:
            return failed(f"{what} {lost:.4g} {unit} lost ({cut}), {limit:g} allowed", _seqs(recovery))
        return passed(f"{what} {lost:.4g} {unit} lost ({cut})", _seqs(recovery))

    return judge


def _spent(history: History, recovery: Recovery, field: str) -> float:
    """Seconds on record of a term that is not over: counted from where it began, none where it never did."""
    terms = ("detect", "restart", "load", "warmup")
    before = [getattr(recovery, term) for term in terms[: terms.index(field)]] if field in terms else []
    if None in before:
        return 0.0
    return max(float(history[-1].t - recovery.began - sum(before)), 0.0)


def _took(history: History, field: str, limit: float) -> Callable[[Recovery], Verdict]:
    def judge(recovery: Recovery) -> Verdict:
        took = value(recovery, f"rto.{field}")
        what = f"{_after(recovery)}:"
        if recovery.need is Need.NONE and (took is None or field == "total"):
            stood = recovery.resume or 0.0
            if stood > limit and field in ("total", "detect"):
                unseen = "" if field == "total" else " and nobody declared a failure"
                return failed(
                    f"{what} work stood still for {stood:.2f} s{unseen}, {limit:g} s allowed", _seqs(recovery)
                )
            return passed(f"{what} {recovery.note}", _seqs(recovery))
        if took is None:
            spent = _spent(history, recovery, field)
            # A job that is over shows no more of its speed, nor a service without clients.
            over = history.first("job.completed") or history.first("load.ended")
            if spent <= limit and (_cut_short(history) or over):
                return unknown(f"{what} the record ends after {spent:.1f} s of it", _seqs(recovery))
            return failed(f"{what} not over in the {spent:.1f} s on record, {limit:g} s allowed", _seqs(recovery))
        if took > limit:
            return failed(f"{what} {took:.2f} s, {limit:g} s allowed", _seqs(recovery))
        return passed(f"{what} {took:.2f} s", _seqs(recovery))

    return judge
