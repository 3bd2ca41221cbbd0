"""What broke, whether it recovered in time, and what to do next: the first screen of the page, in plain words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from chaos.errors import Exit
from chaos.history import Event, History
from chaos.report.contract import amount, ordered
from chaos.report.junit import events_at
from chaos.report.lanes import Band, bands
from chaos.report.lines import number, seconds, shorten
from chaos.report.phrases import broke, moment
from chaos.report.summary import hint
from chaos.result import Check, Kind, Need, Recovery, Result
from chaos.units import counted
from chaos.verdict import Outcome

_TOLD = 3  # faults of a run that are told one by one
_SHOWN = 3  # events under what to do next
_AT_ONCE = 0.0005  # seconds
_BUSY = 0.3  # share of the processors that others took, from which on it may be the reason
_WIDE = 190  # characters of a reason on the first screen

WORDS = {Outcome.PASS: "Passed", Outcome.FAIL: "Failed", Outcome.UNKNOWN: "Inconclusive"}
ICONS = {Outcome.PASS: "✓", Outcome.FAIL: "✗", Outcome.UNKNOWN: "?"}


class Advice(NamedTuple):
    """One thing to do or to know: words, perhaps a check, the events that show it, a command."""

    text: str
    check: Check | None = None
    events: tuple[Event, ...] = ()
    command: str = ""
    more: int = 0  # events of the check beyond those


class Story(NamedTuple):
    """The first screen."""

    word: str
    icon: str
    why: str
    broke: str
    answer: str  # Yes, No, Too late, Not known, Nothing to recover from
    recovered: str
    advice: tuple[Advice, ...]


class Told(NamedTuple):
    """What the page knows beside result and history."""

    notes: Mapping[str, str]
    promises: Mapping[str, str]
    replay: str


def story(result: Result, history: History, told: Told) -> Story:
    """All of it, from the judged run."""
    answer, recovered = _recovered(result, history)
    return Story(
        word(result), ICONS[result.outcome], _why(result, answer), _broke(history), answer, recovered,
        tuple(_advice(result, history, told)),
    )  # fmt: skip


def word(result: Result) -> str:
    """The verdict as a word; what is worse than the outcome says so."""
    if result.exit is Exit.HEAL_FAILED:
        return "Heal failed"
    if result.exit in (Exit.INTERRUPTED, Exit.TERMINATED):
        return "Interrupted"
    return WORDS[result.outcome]


def decisive(result: Result) -> Check | None:
    """The check that the headline is about; where nothing tells, the first that decided the outcome."""
    own = [check for check in ordered(result) if check.verdict.outcome is result.outcome]
    named = [check for check in own if result.headline.startswith(f"{check.name}: ")]
    return next(iter(named + own), None)


def _why(result: Result, answer: str) -> str:
    check = decisive(result)
    if result.exit is Exit.HEAL_FAILED:
        return "A fault could not be undone: undo it by hand before anything else."
    if result.outcome is Outcome.PASS:
        count = len(result.checks)
        return f"Every promise held: {'the only check' if count == 1 else f'all {count} checks'} passed."
    if check is None:
        return f"{result.headline[:1].upper()}{result.headline[1:]}."
    reason = shorten(check.verdict.reason, _WIDE)
    if result.outcome is Outcome.UNKNOWN:
        who = f"{check.name} " if check.kind is Kind.FAULT else ""  # whose reasons are told of it: `was never injected`
        return f"Nothing is proved, neither good nor bad: {who}{reason}"
    if answer in _LED:
        return f"{_LED[answer]}: {reason}"
    if check.kind is not Kind.INVARIANT:
        return reason
    if answer == "Yes":
        worst = result.worst
        went = "It recovered" if worst is not None else "Work went on"
        in_time = " in time" if worst is not None and _limit(result) is not None else ""
        return f"{went}{in_time}, but a promise was broken: {reason}"
    return f"A promise was broken: {reason}"


_LED = {"No": "It did not recover", "Too late": "It recovered too late"}


def _limit(result: Result, budget: str = "rto.total") -> float | None:
    """What is allowed: seconds that a recovery may take, or what another budget is about."""
    check = next((c for c in result.of(Kind.BUDGET) if c.name == budget), None)
    limit = check.measured.get("limit") if check else None
    return float(limit) if isinstance(limit, int | float) else None


def _broke(history: History) -> str:
    found = bands(history)
    if not found:
        missed = history.last("fault.missed") or history.last("fault.failed")
        if missed is not None:
            return f"Nothing: the fault “{missed.source.removeprefix('fault:')}” did not take effect."
        armed = history.first("fault.armed") is not None
        return (
            "Nothing: no fault took effect." if armed else "Nothing, on purpose: a run without a fault, for comparison."
        )
    members = {str(e.get("member") or e.source): e for e in history.of("member.started")}
    parts: list[str] = []
    since, last = -1, ""
    for band in found[:_TOLD]:
        landed = history[band.seq]
        injecting = next((e for e in reversed(history.of("fault.injecting")) if _before(e, landed)), None)
        when = moment(history, injecting, landed, since)
        same = when.removeprefix("set up ") == last and not when.startswith("right after that")
        parts.append(_fault(history, band, members, "at the same time" if same else when))
        since, last = band.seq, when.removeprefix("set up ")
    rest = len(found) - _TOLD
    more = f"; and {counted(rest, 'more fault')}" if rest > 0 else ""
    told = "; then ".join(parts) + more
    return f"{told[:1].upper()}{told[1:]}."


def _fault(history: History, band: Band, members: Mapping[str, Event], when: str) -> str:
    """One fault: what, for how long, when. What is told with commas comes after its moment, or would not be clear."""
    landed = history[band.seq]
    armed = next((e for e in history.of("fault.armed") if e.source == landed.source), None)
    length = f"for {seconds(band.end - band.begin)}" if band.end > band.begin else ""
    if length and not band.healed:
        length = "until the end of the run"
    what = broke(landed, band.members, members, armed.get("settings") if armed else None, length)
    if when.startswith("set up "):
        return f"{what} ({when})"
    if "," in what or (length and when[:1].isdigit()):
        return f"{when}, {what}"
    return f"{what} {when}"


def _before(injecting: Event, landed: Event) -> bool:
    return injecting.source == landed.source and injecting.seq < landed.seq


# What is not over when the record ends: a failure that was found so, nothing that was asked for, or cut short.
_OPEN = {Outcome.FAIL: "No", Outcome.PASS: "Not yet", Outcome.UNKNOWN: "Not known"}


def _recovered(result: Result, history: History) -> tuple[str, str]:
    recovery = result.worst
    if recovery is None:
        return _unneeded(result, history)
    limit = _limit(result)
    of = f", of {seconds(limit)} allowed" if limit is not None else " (no limit was set)"
    if not recovery.complete or recovery.total is None:
        return _OPEN[result.outcome], _unfinished(recovery, history, limit)
    late = limit is not None and recovery.total > limit
    broken = any(c.verdict.outcome is Outcome.FAIL for c in result.of(Kind.BUDGET))
    answer = "Too late" if late else "Not as promised" if broken else "Yes"
    count = sum(r.need in (Need.FAILURE, Need.UNPROVOKED) for r in result.recoveries)
    worst = f"; the slowest of {count} recoveries" if count > 1 else ""
    if recovery.serving:
        if recovery.total < _AT_ONCE:
            return answer, f"No client noticed it{worst}."
        return answer, f"Clients were served as before after {seconds(recovery.total)}{of}{worst}."
    if recovery.resume is not None and recovery.total - recovery.resume > 0.3:
        went = (
            f"Training went on after {seconds(recovery.resume)} and was up to speed after {seconds(recovery.total)}{of}"
        )
    else:
        went = f"Training went on after {seconds(recovery.total)}{of}"
    return answer, f"{went}{worst}; {_lost(recovery, result)}."


def _unneeded(result: Result, history: History) -> tuple[str, str]:
    """Where no recovery was measured: because none was needed, or since nothing moved any more."""
    stuck = next((c for c in result.of(Kind.RUN) if c.verdict.outcome is Outcome.FAIL), None)
    if stuck is not None and bands(history):
        return "No", f"The run did not get its work done: {shorten(stuck.verdict.reason, 120)}."
    if any(r.need is Need.NONE for r in result.recoveries):
        return "Yes", "Work went on; no recovery was needed."
    if not bands(history):
        return "Nothing to recover from", "No fault took effect in this run."
    return "Not known", "The record does not show a recovery."


def _unfinished(recovery: Recovery, history: History, limit: float | None) -> str:
    took = max(history[-1].t - recovery.began, 0.0) if len(history) else 0.0
    allowed = f"; {seconds(limit)} were allowed" if limit is not None else " (no limit was set)"
    if "ended" in recovery.evidence:
        return f"The fault ended the whole system{allowed}."
    noticed = "" if recovery.detect is not None or recovery.serving else " The failure had not been noticed."
    what = "clients were not served as before" if recovery.serving else "training had not gone on"
    return f"When the run ended, {seconds(took)} after the fault, {what}{allowed}.{noticed}"


def _lost(recovery: Recovery, result: Result) -> str:
    if recovery.lost_steps is None:
        return "how much work was lost is not known"
    if recovery.lost_steps == 0:
        return "no step was lost"
    limit = _limit(result, "rpo.steps")
    allowed = f", of {number(limit)} allowed" if limit is not None else ""
    return f"{amount(recovery.lost_steps, 'steps')} of work had to be done again{allowed}"


def _advice(result: Result, history: History, told: Told) -> Iterator[Advice]:
    check = decisive(result)
    if result.outcome is Outcome.PASS:
        yield from _after_pass(result, history, told)
    elif check is not None:
        events = _shown(history, check)
        title = "Look at the check that failed" if result.outcome is Outcome.FAIL else "What was missing"
        yield Advice(title, check, events, more=max(len(check.verdict.evidence) - len(events), 0))
        if result.outcome is Outcome.UNKNOWN:
            yield Advice(f"How to get it: {hint(check)}.")
        else:
            sources = [e.source for e in events if history.first("member.started", member=e.source)]
            yield Advice(_logs(list(dict.fromkeys(sources))))
        if result.others is not None and result.others >= _BUSY and check.kind is not Kind.FAULT:
            yield Advice(
                f"Other work took {result.others * 100:.0f} % of this machine's processors meanwhile: if what was "
                "missed is a matter of time, run it again on a quiet one first."
            )
    if told.replay:
        yield Advice("Run exactly this again", command=told.replay)


def _shown(history: History, check: Check) -> tuple[Event, ...]:
    """The first and the last events of the evidence: where it began, and where it shows; of little, what is around."""
    seqs = check.verdict.evidence
    picked = seqs if len(seqs) <= _SHOWN else (seqs[0], *seqs[1 - _SHOWN :])
    found = events_at(history, picked)
    if len(found) < 2:  # an absence: what it followed, and how the run ended without it
        around = (history.first("fault.landed"), *found, history.last("target.hung"), history.last("run.ended"))
        found = [event for event in around if event is not None]
    return tuple(sorted({event.seq: event for event in found}.values(), key=lambda event: event.seq))[:_SHOWN]


def _logs(sources: list[str]) -> str:
    if not sources:
        return "Then read the members' own logs, beside this page in logs/."
    return f"Then read what they said themselves: {', '.join(f'logs/{shorten(s, 40)}*' for s in sources[:3])}."


def _after_pass(result: Result, history: History, told: Told) -> Iterator[Advice]:
    kinds = dict.fromkeys(str(e.get("kind")) for e in history.of("fault.landed"))
    held = [c for c in result.checks if c.kind is Kind.INVARIANT]
    budgets = len(result.of(Kind.BUDGET))
    proved = " and ".join(filter(None, (
        counted(len(held), "invariant") if held else "",
        counted(budgets, "budget") if budgets else "",
    )))  # fmt: skip
    seed = f" with seed {number(result.seed)}" if result.seed is not None else ""
    under = "under this fault at this moment" if kinds else "which had no fault"
    yield Advice(f"Proved: {proved or 'what was asked'} held in this run, {under}{seed}.")
    for kind in kinds:
        if note := " ".join(told.notes.get(kind, "").split()):
            yield Advice(f"Only what {kind} stands for: {shorten(note, 230)}")
            break
    yield Advice("Not proved by one run: that it always holds. Repeat it (--repeat 10) for a spread of the figures.")
