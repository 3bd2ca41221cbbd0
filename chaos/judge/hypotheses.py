"""The steady state: samples of the probes against their bounds, by the mode of each hypothesis."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import msgspec

from chaos.experiment import Mode
from chaos.history import Event, History
from chaos.judge.contract import Contract, Promise
from chaos.result import Check, Kind, Recovery
from chaos.statistics import median
from chaos.training import Struck, cut_off, few, strikes
from chaos.trigger import Condition
from chaos.units import counted
from chaos.verdict import Outcome, Verdict, failed, passed, unknown

_RUN = 3  # samples in a row that show a steady state
_BLIND = 2.0  # seconds without a sample, and …
_MISSED = 5.0  # … times as long as between two others: nobody looked
_SHARE = 0.5  # of the samples from there on must meet it, as the baseline is a median: checkpoints dent, collapse fails


class Sample(msgspec.Struct, frozen=True):
    """One sample; `value` None where there is no data, which never counts as met."""

    event: Event
    value: Any

    @property
    def t(self) -> float:
        return self.event.t


class Scene(msgspec.Struct, frozen=True):
    """The spans of a run in which hypotheses are judged, on the clock of `Event.t`."""

    begun: float | None  # the steady state was met, so that warming up is over
    struck: float  # the first fault; infinite without one
    healed: float  # the last heal, and every re-formation over; infinite without a fault
    over: float  # the job's end
    faults: tuple[Struck, ...]


def scene(history: History, recoveries: Sequence[Recovery]) -> Scene:
    """The spans of this run."""
    faults = strikes(history)
    injected = history.first("fault.injecting") or history.first("fault.landed")
    ends = [e.t for k in ("job.completed", "load.ended", "target.finished", "run.ended") if (e := history.first(k))]
    over = min(ends, default=history[-1].t if len(history) else 0.0)
    heals = [f.stands(over) for f in faults] + [r.began + r.total for r in recoveries if r.total is not None]
    met = history.first("baseline.met") or history.first("method.started")
    return Scene(
        begun=met.t if met else None,
        struck=injected.t if injected else math.inf,
        healed=max(heals) if faults else math.inf,
        over=over,
        faults=faults,
    )


def samples(history: History, name: str) -> tuple[Sample, ...]:
    """The samples of a probe in order. Null, NaN, an error or lateness make a sample without data."""
    return tuple(Sample(e, _value(e)) for e in history.of("probe.sampled") if e.source == f"probe:{name}")


def _value(event: Event) -> Any:
    value = event.get("value")
    if event.get("late") or event.get("error") or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return value


def baseline(taken: Sequence[Sample], view: Scene) -> float | None:
    """Median of the samples with data before the first fault."""
    numbers = [s.value for s in taken if s.t < view.struck and s.t <= view.over and _is_number(s.value)]
    return median(numbers) if numbers else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def bound_of(promise: Promise, base: float | None) -> Condition | None:
    """The bound in the probe's own unit; None where it hangs on a baseline that is not there."""
    if not promise.of_baseline:
        return promise.bound
    if not base:
        return None
    low, high = promise.bound.at_least, promise.bound.at_most
    return msgspec.structs.replace(
        promise.bound,
        at_least=None if low is None else low * base,
        at_most=None if high is None else high * base,
    )


def checks(contract: Contract, history: History, view: Scene) -> list[Check]:
    """One check for each hypothesis."""
    return [_check(promise, history, view) for promise in contract.hypotheses]


def _check(promise: Promise, history: History, view: Scene) -> Check:
    taken = samples(history, promise.name)
    base = baseline(taken, view)
    bound = bound_of(promise, base)
    missed = history.first("baseline.missed")
    if not taken:
        verdict = unknown("the probe took no sample")
    elif missed is not None:
        verdict = unknown(f"baseline not met: {_why(missed)}", (missed.seq,))
    elif bound is None:
        verdict = unknown("baseline not met: no sample with data before the first fault")
    else:
        verdict = _whole(promise.mode, _judge(promise.mode, bound, taken, view), history, view)
    numbers = [s.value for s in taken if _is_number(s.value)]
    measured: dict[str, Any] = {"mode": promise.mode.value, "unit": promise.unit, "samples": len(taken)}
    measured |= {"without-data": sum(s.value is None for s in taken)}
    measured |= {"baseline": base} if base is not None else {}
    measured |= {"bound": msgspec.to_builtins(bound)} if bound is not None else {}
    measured |= {"lowest": min(numbers), "highest": max(numbers)} if numbers else {}
    return Check(name=promise.name, kind=Kind.HYPOTHESIS, verdict=verdict, measured=measured)


def _why(missed: Event) -> str:
    return "; ".join(f"{k}: {v}" for k, v in missed.data.items()) or "see the journal"


def _whole(mode: Mode, verdict: Verdict, history: History, view: Scene) -> Verdict:
    """What was to hold as long as a fault stands, and did, is not known where the run's end healed it too early."""
    if mode not in (Mode.CONTINUOUS, Mode.DURING) or verdict.outcome is not Outcome.PASS:
        return verdict
    for fault in view.faults:
        if cut := cut_off(history, fault.step):
            return unknown(
                f"{verdict.reason}, but {fault.step} was healed after {cut}: give the target more to do, or leave "
                "`hold` out where a fault is to stand to the end",
                verdict.evidence,
            )
    return verdict


def _judge(mode: Mode, bound: Condition, taken: Sequence[Sample], view: Scene) -> Verdict:
    if mode in (Mode.BEFORE, Mode.EDGE, Mode.CONTINUOUS):
        before = _edge(bound, [s for s in taken if s.t < min(view.struck, view.over)], "before the first fault")
        if before.outcome is not Outcome.PASS:
            return unknown(f"baseline not met: {before.reason}", before.evidence)
        if mode is Mode.BEFORE or (mode is Mode.EDGE and view.struck == math.inf):
            return before
    if mode is Mode.CONTINUOUS:
        span = _steady(bound, taken, view)
        whole = _every(bound, span, "of the run")
        gap = _gap(span, view.over) if whole.outcome is Outcome.PASS else None
        return whole if gap is None else unknown(f"{gap}, though it is to hold all the time", few(_seqs(span)))
    if not view.faults:
        return unknown("no fault landed, so there is neither a during nor an after")
    if mode is Mode.DURING:
        during = [s for s in taken if any(f.landed.t <= s.t <= f.stands(view.over) for f in view.faults)]
        return _every(bound, [s for s in during if s.t <= view.over], "while a fault stood")
    return _edge(bound, [s for s in taken if view.healed < s.t <= view.over], "after the last heal")


def _edge(bound: Condition, span: Sequence[Sample], when: str) -> Verdict:
    """Whether a steady state was reached in the span and held to its end."""
    seqs = few([s.event.seq for s in span[-_RUN:]])
    if len(span) < _RUN:
        return unknown(f"only {counted(len(span), 'sample')} {when}", seqs)
    if _settled([s.value is not None and bound.holds(s.value) for s in span]):
        return passed(f"met {when}", seqs)
    if _settled([s.value is None or bound.holds(s.value) for s in span]):
        return unknown(f"too few samples with data {when}", seqs)
    misses = [s for s in span if s.value is not None and not bound.holds(s.value)]
    if span[-1] not in misses:
        return unknown(f"met at the end, but not for {_RUN} samples in a row nor most of the time {when}", seqs)
    return failed(
        f"not met {when}: {len(misses)} of {counted(len(span), 'sample')} outside the bound, the last "
        f"{_show(misses[-1].value)}",
        few([s.event.seq for s in misses]),
    )


def _settled(met: Sequence[bool]) -> bool:
    for index in range(len(met) - _RUN + 1):
        if all(met[index : index + _RUN]):
            rest = met[index:]
            return sum(rest) >= _SHARE * len(rest)
    return False


def _steady(bound: Condition, taken: Sequence[Sample], view: Scene) -> list[Sample]:
    """The samples of the run once the steady state had been met, to the end of the job."""
    start = view.begun
    if start is None:
        start = next((s.t for s in taken if s.value is not None and bound.holds(s.value)), math.inf)
    return [s for s in taken if start <= s.t <= view.over]


def _every(bound: Condition, span: Sequence[Sample], when: str) -> Verdict:
    if not span:
        return unknown(f"no sample {when}")
    misses = [s for s in span if s.value is not None and not bound.holds(s.value)]
    if misses:
        worst = _longest(span, lambda s: s.value is not None and not bound.holds(s.value))
        return failed(
            f"{len(misses)} of {counted(len(span), 'sample')} {when} outside the bound, from {worst[0].t:.1f} s to "
            f"{worst[-1].t:.1f} s at a stretch (such as {_show(worst[0].value)})",
            few([s.event.seq for s in misses]),
        )
    if blind := [s for s in span if s.value is None]:
        return unknown(
            f"{len(blind)} of {counted(len(span), 'sample')} {when} are late or without data", few(_seqs(blind))
        )
    whole = "the only sample" if len(span) == 1 else f"all {len(span)} samples"
    return passed(f"met by {whole} {when}", few(_seqs(span)))


def _gap(span: Sequence[Sample], over: float) -> str | None:
    """Where nobody looked for so long that anything may have been: the longest time between two samples, or to the end.

    None where they came as regularly as samples do.
    """
    times = [*(s.t for s in span), max(over, span[-1].t)]
    gaps = [b - a for a, b in pairwise(times)]
    longest = max(gaps)
    if len(gaps) < _RUN or longest <= max(_BLIND, _MISSED * median(gaps)):
        return None
    return f"no sample was taken for {longest:.1f} s, from {times[gaps.index(longest)]:.1f} s on"


def _longest(span: Sequence[Sample], bad: Callable[[Sample], bool]) -> list[Sample]:
    best: list[Sample] = []
    stretch: list[Sample] = []
    for sample in span:
        stretch = [*stretch, sample] if bad(sample) else []
        best = max(best, stretch, key=len)
    return best


def _seqs(span: Sequence[Sample]) -> list[int]:
    return [s.event.seq for s in span]


def _show(value: Any) -> str:
    return f"{value:g}" if _is_number(value) else repr(value)
