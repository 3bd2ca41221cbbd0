"""The run itself: was it complete, did every fault land and heal, did the target make progress and end well."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from chaos.history import Event, History
from chaos.judge.contract import Contract, Planned
from chaos.result import Check, Kind, Need, Recovery
from chaos.standstill import standstill
from chaos.training import cut_off, few, lineage, listed
from chaos.units import counted
from chaos.verdict import Verdict, failed, passed, unknown

_EARLY = 1.0  # seconds by which a load may be over sooner than it says: clients come at random


def checks(contract: Contract, history: History) -> list[Check]:
    """The checks of the run, then one for each step of the method."""
    found = [Check(name="run complete", kind=Kind.RUN, verdict=_complete(history))]
    if history.first("target.hung") or history.first("step.completed") or history.first("request.completed"):
        found.append(Check(name="progress", kind=Kind.RUN, verdict=_progress(history)))
    # A target that is not said to end may do so in peace; with an error it has broken down.
    if contract.job == "fails":
        found.append(Check(name="job fails", kind=Kind.RUN, verdict=_gave_up(history)))
    elif contract.ends or any(e.get("code") != 0 for e in history.of("target.finished")):
        found.append(Check(name="job done", kind=Kind.RUN, verdict=_done(history)))
    found += [
        Check(name=step.name, kind=Kind.FAULT, verdict=_fault(step, history), measured={"fault": step.kind})
        for step in contract.steps
    ]
    return found


def blind(contract: Contract, history: History) -> list[Check]:
    """A check for each condition of `abort` whose probe never had data: nothing watched over the run."""
    promised = {f"probe:{promise.name}" for promise in contract.hypotheses}
    last: dict[str, Event] = {}
    saw: set[str] = set()
    for event in history.of("probe.sampled"):
        if event.source not in promised:
            last[event.source] = event
            if event.get("value") is not None:
                saw.add(event.source)
    return [
        Check(
            name=f"abort {source.removeprefix('probe:')}",
            kind=Kind.RUN,
            verdict=unknown(f"its probe never had data ({event.get('error') or 'null'}): nobody watched", (event.seq,)),
        )
        for source, event in last.items()
        if source not in saw
    ]


def unprovoked(recoveries: Sequence[Recovery]) -> list[Check]:
    """A check where the target failed although nobody had broken anything: nobody can tell a bug from a bad machine."""
    found = [r for r in recoveries if r.need is Need.UNPROVOKED]
    if not found:
        return []
    when = listed([f"{r.began:.1f} s ({r.note or f'epoch {r.epoch}'})" for r in found])
    reason = (
        f"a failure that no fault explains was recovered from: {when}; the target broke by itself, or the machine did"
    )
    seqs = few([seq for r in found for seq in r.evidence.values()])
    return [Check(name="no other failure", kind=Kind.RUN, verdict=unknown(reason, seqs))]


def _complete(history: History) -> Verdict:
    ended, garbled = history.last("run.ended"), history.of("target.malformed")
    if missed := history.first("baseline.missed"):
        why = ended.get("detail") if ended else None
        return unknown(
            f"nothing was injected: {why or 'the steady state was not met before the method'}", (missed.seq,)
        )
    if ended is None:
        return unknown("the journal ends before the run did: the harness was killed, or its disk was full")
    reason = ended.get("reason")
    if garbled:
        first = garbled[0]
        return unknown(
            f"facts are missing: {counted(len(garbled), 'time')} a member said what is no event; the first time "
            f"{first.source}: {first.get('reason')}",
            _seqs(garbled),
        )
    if reason in ("finished", "hung"):
        return passed(f"the run ended: {reason}", (ended.seq,))
    causes = history.of("limit.reached", "abort.triggered", "run.interrupted")
    said = ended.get("detail") or listed([f"{e.kind} {e.get('name') or e.get('signal')}" for e in causes])
    return unknown(f"the run was cut short: {reason}" + (f": {said}" if said else ""), few([*_seqs(causes), ended.seq]))


def _progress(history: History) -> Verdict:
    if hung := history.first("target.hung"):
        reason, shown = standstill(history, hung)
        return failed(reason, few([*(e.seq for e in shown), hung.seq]))
    last = history.last("step.completed") or history.last("request.completed")
    assert last is not None
    return passed("the target never stopped making progress for longer than the stall limit", (last.seq,))


def _done(history: History) -> Verdict:
    finished, gave_up = history.last("target.finished"), history.last("job.failed")
    done = history.last("job.completed")
    if finished is None:
        if history.first("target.hung"):
            return failed("the target hung and did not end", _seqs(history.of("target.hung")))
        if gave_up is not None:
            return failed(f"the job failed: {gave_up.get('reason')}", (gave_up.seq,))
        return unknown("the target had not ended when the record did")
    code = finished.get("code")
    if code != 0 or gave_up is not None:
        why = f": {gave_up.get('reason')}" if gave_up else ""
        return failed(
            f"the target ended with exit code {code} ({finished.get('member')}){why}",
            sorted(e.seq for e in (gave_up, finished) if e is not None),
        )
    begun = history.first("job.started")
    if done is None and begun is not None:
        return failed("the target ended with exit code 0 although its job was not done", (finished.seq,))
    if (load := history.first("load.started")) is not None:
        over = history.first("load.ended")
        if over is None:
            return failed("the target ended with exit code 0 although its load was not over", (finished.seq,))
        wanted, lasted = load.get("seconds"), over.t - load.t
        if wanted is not None and lasted < wanted - max(_EARLY, 0.1 * wanted):
            return failed(f"the load was over after {lasted:.1f} of {wanted:g} s", (load.seq, over.seq))
    if begun is not None and done is not None:
        wanted, reached = begun.get("steps"), done.get("step")
        shown = max((e.step for e in lineage(history).lasting), default=0) if reached is None else reached
        if wanted is not None and reached is None and shown < wanted:
            return unknown(f"nobody tells at which of {wanted} steps the job was completed", (done.seq, finished.seq))
        if wanted is not None and shown < wanted:
            return failed(f"the job was completed at step {reached} of {wanted}", (done.seq, finished.seq))
    return passed("the target ended by itself with its job done", sorted(e.seq for e in (done, finished) if e))


def _gave_up(history: History) -> Verdict:
    """Of a job that cannot be done: it must say so, and end with an error."""
    finished, gave_up = history.last("target.finished"), history.last("job.failed")
    seqs = sorted(e.seq for e in (gave_up, finished) if e is not None)
    if finished is None:
        return failed("the target did not end, although its job cannot be done", few(seqs))
    if finished.get("code") == 0:
        return failed("the target ended with exit code 0, although its job was to fail", seqs)
    if gave_up is None:
        return failed(f"the target broke down with exit code {finished.get('code')} and without a word", seqs)
    return passed(f"the job said that it cannot be done, and ended with {finished.get('code')}", seqs)


def _fault(step: Planned, history: History) -> Verdict:
    mine = [
        e
        for e in history.of("fault.armed", "fault.landed", "fault.healed", "fault.failed", "fault.missed")
        if e.source == f"fault:{step.name}"
    ]
    landed = [e for e in mine if e.kind == "fault.landed"]
    healed = [e for e in mine if e.kind == "fault.healed"]
    for event in mine:
        if event.kind == "fault.failed" and event.get("phase") == "heal":
            return failed(f"the heal failed: {event.get('message')}; undo by hand: {event.get('undo')}", (event.seq,))
    if broken := next((e for e in mine if e.kind == "fault.failed"), None):
        what = "broke off" if broken.get("phase") == "hold" else "did not land"
        return unknown(f"{what}: {broken.get('error')}: {broken.get('message')}", (broken.seq,))
    missed = next((e for e in mine if e.kind == "fault.missed"), None)
    if missed is not None and not (step.endless and landed):
        return unknown(f"was never injected: {missed.get('reason')}", (missed.seq,))
    if not landed:
        return unknown("was never injected", _seqs(mine))
    if blind := [e for e in landed if not e.get("evidence")]:
        return unknown("landed without a proof that it took effect", _seqs(blind))
    standing = [e for e in landed if not e.get("instant")]
    if len(healed) < len(standing):
        return unknown("landed, but its heal is not on record", _seqs(standing))
    if healed and all(e.get("met") == 0 for e in healed):
        return unknown("stood and was healed, and the target never ran into it", _seqs([*landed, *healed]))
    over = history.first("job.completed") or history.first("load.ended")
    if over is not None and (late := [e for e in landed if e.seq > over.seq]):
        what = "job" if over.kind == "job.completed" else "load"
        return unknown(f"landed when the {what} was over, so nothing had to recover", few([over.seq, *_seqs(late)]))
    times = f" {len(landed)} times" if len(landed) > 1 else ""
    early = cut_off(history, step.name)
    how = "nothing to heal" if not standing else f"healed after {early}" if early else "healed"
    notes = dict.fromkeys(str(note) for e in healed if (note := (e.get("evidence") or {}).get("note")))
    how = "; ".join([how, *notes])
    return passed(f"landed{times} with proof{_late(step, history)}, {how}", few([*_seqs(landed), *_seqs(healed)]))


def _late(step: Planned, history: History) -> str:
    """Of a fault whose trigger fired before the method began: how long after its moment it was injected.

    A member that stands at a failpoint, or before a file operation, waits there: its moment does not pass.
    """
    began = history.first("method.started")
    injected = [e for e in history.of("fault.injecting") if e.source == f"fault:{step.name}"]
    causes = [e.get("trigger") for e in injected if e.get("trigger") is not None]
    if began is None or not causes or causes[0] >= began.seq:
        return ""
    cause = history[bisect_left(history, causes[0], key=lambda e: e.seq)]
    if cause.kind in ("point.reached", "file.reached"):
        return ""
    return f" {began.t - cause.t:.2f} s after the moment it names (the steady state was not met before)"


def _seqs(events: list[Event] | tuple[Event, ...]) -> tuple[int, ...]:
    return few([e.seq for e in events])
