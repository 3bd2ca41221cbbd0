"""From a history and its contract to a result."""

from __future__ import annotations

import traceback
from collections.abc import Sequence

from chaos.api import Invariant
from chaos.errors import Exit
from chaos.history import History
from chaos.judge import books, budget, clocks, conduct, hypotheses, serving, steps
from chaos.judge.contract import Contract
from chaos.judge.efficiency import efficiency
from chaos.judge.neighbours import WORTH_A_WORD, others
from chaos.judge.recovery import measure
from chaos.result import Check, Kind, Need, Recovery, Result
from chaos.serving import serves
from chaos.units import counted
from chaos.verdict import Outcome, Verdict, merge, unknown


def judge(contract: Contract, history: History, invariants: Sequence[tuple[str, Invariant]] = ()) -> Result:
    """Judge a run from its record alone; the same record always gives the same result.

    `invariants` are instances of those that the contract names, as (kind, invariant). A record in which nothing is what
    it should be (a target may say anything) makes the run inconclusive.
    """
    try:
        return _judge(contract, history, invariants)
    except Exception as error:
        verdict = _cannot(error)
        return Result(
            experiment=contract.experiment,
            title=contract.title,
            outcome=verdict.outcome,
            exit=_exit(history, verdict.outcome, bool(_undo(history))),
            headline=verdict.reason,
            checks=(Check(name="record", kind=Kind.RUN, verdict=verdict),),
            undo=_undo(history),
        )


def _judge(contract: Contract, history: History, invariants: Sequence[tuple[str, Invariant]]) -> Result:
    served = serves(history)
    recoveries = serving.measure(history) if served else measure(history, _warm(contract, history))
    budgets = serving.checks if served else budget.checks
    view = hypotheses.scene(history, recoveries)
    checks = (
        *conduct.checks(contract, history),
        *conduct.unprovoked(recoveries),
        *conduct.blind(contract, history),
        *clocks.checks(history),
        *steps.checks(history),
        *(books.checks(history) if served else ()),
        *hypotheses.checks(contract, history, view),
        *budgets(contract.budget, history, recoveries),
        *(Check(name=kind, kind=Kind.INVARIANT, id=i.id, verdict=_held(i, history)) for kind, i in invariants),
    )
    outcome = merge(c.verdict.outcome for c in checks)
    if outcome is Outcome.PASS and not _asked(contract, checks):
        outcome = Outcome.UNKNOWN
    undo, busy = _undo(history), others(history)
    started = history.first("run.started")
    return Result(
        experiment=contract.experiment,
        title=contract.title,
        seed=started.get("seed") if started else None,
        outcome=outcome,
        exit=_exit(history, outcome, bool(undo)),
        headline=_headline(outcome, checks, recoveries) + _beside(outcome, busy),
        checks=checks,
        seconds=history[-1].t if len(history) else None,
        started=started.wall if started else None,
        recoveries=recoveries,
        efficiency=efficiency(history),
        others=busy,
        undo=undo,
    )


def _beside(outcome: Outcome, busy: float | None) -> str:
    """A red that may be the machine's fault says so; it is red all the same."""
    if outcome is Outcome.PASS or busy is None or busy < WORTH_A_WORD:
        return ""
    return f" – while other work took {busy * 100:.0f} % of this machine's processors"


def _undo(history: History) -> tuple[str, ...]:
    return tuple(str(e.get("undo")) for e in history.of("fault.failed", phase="heal"))


def _asked(contract: Contract, checks: Sequence[Check]) -> bool:
    """Whether anything was promised: at the least, that a job is done in spite of a fault."""
    kinds = {c.kind for c in checks}
    return bool(kinds - {Kind.RUN, Kind.FAULT}) or (contract.ends and Kind.FAULT in kinds)


def _held(invariant: Invariant, history: History) -> Verdict:
    try:
        return invariant.check(history)
    except Exception as error:
        return _cannot(error)


def _cannot(error: Exception) -> Verdict:
    """A judge that cannot judge knows nothing: neither a pass nor a failure of the target."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    return unknown(f"could not be judged: {type(error).__name__}: {error} ({place.name}, line {place.lineno})")


def _warm(contract: Contract, history: History) -> float | None:
    """The share of the healthy speed that the hypothesis on throughput asks for."""
    for promise in contract.hypotheses:
        low = promise.bound.at_least
        if promise.kind.rpartition(".")[2] != "throughput" or low is None:
            continue
        if promise.of_baseline:
            return low
        base = hypotheses.baseline(hypotheses.samples(history, promise.name), hypotheses.scene(history, ()))
        return low / base if base else None
    return None


def _exit(history: History, outcome: Outcome, heal_failed: bool) -> Exit:
    if heal_failed:
        return Exit.HEAL_FAILED
    if interrupted := history.first("run.interrupted"):
        return Exit.TERMINATED if interrupted.get("signal") in (15, "SIGTERM", "TERM") else Exit.INTERRUPTED
    return {Outcome.PASS: Exit.PASS, Outcome.FAIL: Exit.FAIL, Outcome.UNKNOWN: Exit.INCONCLUSIVE}[outcome]


def _headline(outcome: Outcome, checks: Sequence[Check], recoveries: Sequence[Recovery]) -> str:
    decisive = [c for c in checks if c.verdict.outcome is outcome]
    if outcome is Outcome.PASS:
        taken = [r.total for r in recoveries if r.total is not None and r.need is not Need.PLANNED]
        lost = [r.lost_steps for r in recoveries if r.lost_steps is not None]
        said = "the only check passed" if len(checks) == 1 else f"all {len(checks)} checks passed"
        if taken:
            said += f"; recovered in {max(taken):.1f} s"
        return said + (f", {counted(max(lost), 'step')} lost" if lost else "")
    if not decisive:
        return "nothing was asked: no hypothesis, budget or invariant"
    # Of a failure an invariant says why; a budget or the run's own checks mostly say that. Where nothing could be
    # judged, that is because the run was cut short or a fault did not land.
    order = [Kind.INVARIANT, Kind.FAULT, Kind.RUN, Kind.HYPOTHESIS, Kind.BUDGET]
    if outcome is Outcome.UNKNOWN:
        order = [Kind.RUN, Kind.FAULT, Kind.HYPOTHESIS, Kind.INVARIANT, Kind.BUDGET]
    first = min(decisive, key=lambda c: order.index(c.kind))
    more = f" (and {len(decisive) - 1} more)" if len(decisive) > 1 else ""
    return f"{first.name}: {first.verdict.reason}{more}"
