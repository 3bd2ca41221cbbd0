"""The report of a day as plain data: what was promised, what happened, what surprised, what is to be done. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from chaos.errors import Exit
from chaos.gameday.records import Attempt, DayStory, Figure
from chaos.gameday.terms import Turn
from chaos.units import counted

LATE = 60.0  # seconds after its time that make a start a surprise
TIGHT = 0.8  # share of a budget that is worth a look though it held
QUESTIONS = (
    "What did we believe before each experiment, and what turned out otherwise?",
    "Who or what noticed each fault first: an alarm, a dashboard, a person, a user? How long did it take?",
    "Which step of a recovery was done by hand, and could have been done by nobody?",
    "Did anything break that no experiment was aimed at?",
    "What made a result inconclusive, and what would make it conclusive the next time?",
    "Which failures of the real world does no experiment stand for yet?",
    "What do we change before the next game day, who does it, and until when?",
)


class Part(NamedTuple):
    """One turn as it went."""

    number: int
    name: str
    title: str
    file: str
    rung: str
    category: str
    seed: int
    outcome: str  # pass, fail, inconclusive, interrupted, heal failed, not run
    why: str
    link: str  # to the run's own report, relative to the day's folder; empty where there is none
    folder: str
    late: float | None  # seconds after it was due
    seconds: float | None
    figures: tuple[Figure, ...]
    failed: tuple[str, ...]
    unknown: tuple[str, ...]
    undo: tuple[str, ...]
    attempts: int
    orphaned: bool  # nobody who had started it was there when it ended

    @property
    def label(self) -> str:
        return f"{self.number} {self.name}"


class Entry(NamedTuple):
    """A line of the timeline."""

    at: float
    kind: str
    text: str


class Promise(NamedTuple):
    """An experiment and its contract."""

    name: str
    title: str
    rung: str
    derived: bool
    times: int
    promises: tuple[str, ...]


class Action(NamedTuple):
    """Something to do; owner and date are for the review to fill in."""

    what: str
    why: str


class Report(NamedTuple):
    """All parts, in the order of the page."""

    story: DayStory
    parts: tuple[Part, ...]
    promises: tuple[Promise, ...]
    timeline: tuple[Entry, ...]
    surprises: tuple[str, ...]
    actions: tuple[Action, ...]
    counts: Mapping[str, int]
    headline: str
    questions: tuple[str, ...] = QUESTIONS


def report(story: DayStory) -> Report:
    """The whole report. A day that is not over has one, too: turns to come are `to come`."""
    skips = {skip.number: skip.why for skip in story.skips}
    parts = tuple(_part(turn, story, skips.get(turn.number, "")) for turn in story.day.agenda.turns)
    counts: dict[str, int] = {}
    for part in parts:
        counts[part.outcome] = counts.get(part.outcome, 0) + 1
    surprises = (*_about_the_day(story), *_about_parts(parts, story.past), *_about_the_draw(story))
    return Report(
        story=story, parts=parts, promises=_promises(story), timeline=_timeline(story), surprises=surprises,
        actions=tuple(_actions(parts, story)), counts=counts, headline=_headline(parts),
    )  # fmt: skip


def _headline(parts: tuple[Part, ...]) -> str:
    """The day in one sentence."""
    passed = sum(part.outcome == "pass" for part in parts)
    said = [f"{passed} of {counted(len(parts), 'experiment')} passed"]
    for outcome, words in (("fail", "failed"), ("heal failed", "could not be healed")):
        names = dict.fromkeys(part.name for part in parts if part.outcome == outcome)
        said += [f"{', '.join(names)} {words}"] if names else []
    recoveries = [
        (figure.value, part.name)
        for part in parts
        for figure in part.figures
        if figure.name == "rto.total" and figure.value is not None
    ]
    if recoveries:
        slowest, name = max(recoveries)
        said.append(f"the slowest recovery took {slowest:.1f} s ({name})")
    return "; ".join(said)


def _part(turn: Turn, story: DayStory, skipped: str) -> Part:
    attempts = [a for a in story.attempts if a.number == turn.number]
    last = next((a for a in reversed(attempts) if a.finding is not None), None)
    finding = last.finding if last is not None else None
    began = attempts[0].begun if attempts else None
    outcome, why = _outcome(last, skipped)
    page = Path(finding.folder, "report.html") if finding is not None and finding.folder else None
    return Part(
        number=turn.number, name=turn.piece.name, title=turn.piece.title, file=turn.piece.file, rung=turn.piece.rung,
        category=turn.category, seed=turn.seed, outcome=outcome, why=why,
        link=_relative(page, Path(story.day.folder)) if page is not None and page.exists() else "",
        folder=finding.folder if finding is not None else "",
        late=None if turn.due is None or began is None else max(0.0, began - story.day.started - turn.due),
        seconds=finding.seconds if finding is not None else None,
        figures=finding.figures if finding is not None else (),
        failed=finding.failed if finding is not None else (),
        unknown=finding.unknown if finding is not None else (),
        undo=finding.undo if finding is not None else (),
        attempts=len(attempts), orphaned=any(a.orphaned for a in attempts),
    )  # fmt: skip


def _outcome(last: Attempt | None, skipped: str) -> tuple[str, str]:
    if last is None or last.finding is None:
        return ("not run", skipped) if skipped else ("to come", "")
    finding = last.finding
    if finding.exit == Exit.HEAL_FAILED:
        return "heal failed", finding.headline
    if not finding.complete or finding.exit in (Exit.INTERRUPTED, Exit.TERMINATED):
        return "interrupted", finding.headline
    words = {Exit.PASS: "pass", Exit.FAIL: "fail"}
    return words.get(finding.exit, "inconclusive") if finding.exit is not None else "inconclusive", finding.headline


def _relative(path: Path, base: Path) -> str:
    return str(path.relative_to(base)) if path.is_relative_to(base) else path.as_uri()


def _promises(story: DayStory) -> tuple[Promise, ...]:
    found: dict[tuple[str, tuple[tuple[str, str], ...]], Promise] = {}
    for turn in story.day.agenda.turns:
        piece = turn.piece
        key = (piece.file, tuple(piece.settings.items()))
        before = found[key].times if key in found else 0
        found[key] = Promise(piece.name, piece.title, piece.rung, piece.derived, before + 1, piece.promises)
    return tuple(found.values())


def _timeline(story: DayStory) -> tuple[Entry, ...]:
    day = story.day
    entries = [Entry(day.planned, "day.planned", "the day was planned to start")]
    entries += [Entry(line.at, line.kind, line.text) for line in (*story.before, *story.lines)]
    names = {turn.number: f"{turn.number} {turn.piece.name}" for turn in day.agenda.turns}
    for attempt in story.attempts:
        for moment in attempt.finding.moments if attempt.finding is not None else ():
            entries.append(Entry(moment.at, "fault", f"{names[attempt.number]}: {moment.text}"))
    for lot in day.agenda.uncovered:
        if lot.due is not None:
            entries.append(
                Entry(day.started + lot.due, "failure.uncovered", f"{lot.category}: no experiment stands for it")
            )
    return tuple(sorted(entries, key=lambda entry: entry.at))


def _about_the_day(story: DayStory) -> Iterator[str]:
    day = story.day
    if day.why:
        yield f"The day was {day.state.value}: {day.why}."
    if day.started - day.planned > LATE:
        yield f"It began {_span(day.started - day.planned)} after its time."
    resumed = sum(line.kind == "day.resumed" for line in story.lines)
    if resumed:
        yield f"The game day itself was cut off and started again {_times(resumed)}."
    for line in (*story.before, *story.lines):
        if line.kind in ("announcement.failed", "start.missed"):
            yield f"{line.text[:1].upper()}{line.text[1:]}."


def _about_parts(parts: tuple[Part, ...], past: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    today: dict[str, set[str]] = {}
    for part in parts:
        if part.outcome in ("fail", "heal failed", "inconclusive", "interrupted", "not run"):
            unknown = f" (could not be judged: {', '.join(part.unknown)})" if part.unknown else ""
            yield f"{part.label}: {part.outcome}: {part.why}{unknown}."
        if part.attempts > 1:
            yield f"{part.label} was started {_times(part.attempts)}: the first was cut off."
        if part.orphaned:
            yield f"{part.label} outlived the game day that had started it; its verdict is from its journal."
        for figure in part.figures:
            if figure.outcome == "pass" and figure.value and figure.limit and figure.value > TIGHT * figure.limit:
                yield f"{part.label} took {figure.value / figure.limit:.0%} of its budget {figure.name}."
        if part.outcome in ("pass", "fail"):
            today.setdefault(part.name, set()).add(part.outcome)
    late = [part for part in parts if part.late is not None and part.late > LATE]
    if late:
        most = _span(max(part.late or 0.0 for part in late))
        numbers = ", ".join(str(part.number) for part in late)
        yield f"Late, by up to {most} after they were due: {numbers}. Others still ran, or a person was waited for."
    for name, outcomes in today.items():
        earlier = [outcome for outcome in past.get(name, ()) if outcome in ("pass", "fail")]
        if len(outcomes) > 1:
            yield f"{name} is flaky: it passed and failed on this day."
        elif len(set(earlier)) > 1:
            passed = f"{earlier.count('pass')} of {counted(len(earlier), 'earlier run')} passed"
            yield f"{name} is flaky: {passed}; today: {outcomes.pop()}."
        elif earlier and set(earlier) != outcomes:
            yield f"{name} was {earlier[0]} in {_all(earlier)}; today: {outcomes.pop()}."


def _all(runs: list[str]) -> str:
    return "the only earlier run" if len(runs) == 1 else f"all {len(runs)} earlier runs"


def _about_the_draw(story: DayStory) -> Iterator[str]:
    agenda = story.day.agenda
    if agenda.never:
        yield f"Never drawn: {', '.join(agenda.never)}."
    if agenda.silent:
        share = sum(agenda.silent.values())
        listed = ", ".join(f"{name} {part:.1%}" for name, part in sorted(agenda.silent.items(), key=lambda s: -s[1]))
        yield f"{share:.0%} of the failures of the mix have no experiment that stands for them: {listed}."
    if agenda.uncovered:
        were = counted(
            len(agenda.uncovered), "failure without an experiment was", "failures without an experiment were"
        )
        yield f"{were} drawn among the others, and not run."


def _actions(parts: tuple[Part, ...], story: DayStory) -> Iterator[Action]:
    for part in parts:
        for line in part.undo:
            yield Action(f"Undo by hand: {line}", part.label)
        if part.outcome == "fail":
            yield Action(f"Mend what {part.name} showed: {', '.join(part.failed) or part.why}", part.why)
        elif part.outcome == "inconclusive":
            yield Action(f"Make {part.name} conclusive: {', '.join(part.unknown) or part.why}", part.why)
        elif part.outcome in ("interrupted", "not run"):
            yield Action(f"Run {part.name}: `chaos run {part.file} --seed {part.seed}`", part.why)
    silent = sorted(story.day.agenda.silent.items(), key=lambda share: -share[1])
    for category, share in silent[:3]:
        yield Action(f"Write an experiment for {category}", f"{share:.1%} of the failures of the mix")


def _span(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{seconds:.0f} s" if seconds < 120 else f"{minutes} min" if minutes < 120 else f"{seconds / 3600:.1f} h"


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")
