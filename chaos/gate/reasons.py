"""From the runs of an entry to the reasons why its path is not proved, each in a line that a person can act on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from chaos.evidence import Build, Evidence
from chaos.gate.catalogue import Entry
from chaos.gate.counting import Record, Tally, decided, outvoting, right, window_of
from chaos.gate.decision import Finding, Reason
from chaos.result import Spread
from chaos.statistics import spread
from chaos.units import counted, format_duration, format_ratio

# Of what keeps runs from counting, in the order in which a person would ask.
_NEAREST: tuple[Reason, ...] = ("stale", "other-build", "experiment-changed", "overridden", "no-lab")


def findings(entry: Entry, found: Tally, figures: Mapping[str, Spread], today: Build, now: float) -> list[Finding]:
    """All of them, the one that says most first; empty where the path is proved."""
    reasons = [*_edited(found), *_wrong(entry, found), *_over(entry, found, figures)]
    if len(found.good) < entry.policy.runs:
        reasons += _lacking(entry, found, today, now)
    return reasons


def figures_of(entry: Entry, found: Tally) -> dict[str, Spread]:
    """What the runs cost, of the figures that are bounded."""
    values = {name: _known(found, name) for name in entry.policy.bounds()}
    return {name: spread(known) for name, known in values.items() if known}


def asides(entry: Entry, found: Tally) -> list[Finding]:
    """What a reader of a proved path should know all the same."""
    worst = max(found.records, key=lambda record: len(_wrong_of(entry, record)) / len(record.runs), default=None)
    notes = [Finding("flaky", _share(entry, worst))] if found.wrong and worst else []
    if aside := [run for run in found.undecided if run not in found.wrong]:
        notes.append(Finding("inconclusive", f"{counted(len(aside), 'run')} without a verdict set aside"))
    return notes


def _edited(found: Tally) -> Iterator[Finding]:
    for run in found.edited[:1]:
        others = f" (and {len(found.edited) - 1} more)" if len(found.edited) > 1 else ""
        how = "its journal was changed after it was judged, or what is told of it differs"
        yield Finding("edited", f"{run.run}: {how}{others}")


def _wrong(entry: Entry, found: Tally) -> Iterator[Finding]:
    over = [record for record in found.records if outvoting(entry.policy, record.runs) != 0]
    wrong = [(run, record) for record in over for run in _wrong_of(entry, record)]
    if not wrong:
        return
    failed = [(run, record) for run, record in wrong if decided(run)]
    if not failed:
        yield Finding("inconclusive", _inconclusive(tuple(run for run in found.wrong if not decided(run))))
        return
    run, record = max(failed, key=lambda one: (one[0].started, one[0].run))
    if run is found.newest:
        wanted = "" if entry.policy.verdict == "pass" else ", and a failure is asked for"
        yield Finding("failing", f"{run.run}: {run.headline}{wanted}")
    else:
        yield Finding("flaky", f"{_share(entry, record)}: {run.run}: {run.headline}")


def _wrong_of(entry: Entry, record: Record) -> list[Evidence]:
    return [run for run in record.runs if not right(entry.policy, run)]


def _share(entry: Entry, record: Record) -> str:
    rate, runs, newest = entry.policy.flake_rate, record.runs, ""
    wrong = _wrong_of(entry, record)
    if rate and len(wrong) <= rate * len(runs) and outvoting(entry.policy, runs):
        runs, newest = runs[: window_of(entry.policy)], "the newest "
        wrong = [run for run in wrong if run in runs]
    build = "this build" if record.today else "the build that was run last"
    ran = f"{len(wrong)} of {newest}{counted(len(runs), 'run')} of {record.experiment} on {build}"
    return f"{ran} did not {entry.policy.verdict}, {format_ratio(rate)} allowed"


def _inconclusive(runs: tuple[Evidence, ...]) -> str:
    return f"{counted(len(runs), 'run')} without a verdict: {runs[0].run}: {runs[0].headline}"


def _over(entry: Entry, found: Tally, figures: Mapping[str, Spread]) -> Iterator[Finding]:
    """Only what is known and below its bound is met: a figure that a run does not tell is not."""
    if not found.good:
        return
    for name, bound in entry.policy.bounds().items():
        taken, known = figures.get(name), len(_known(found, name))
        if taken is None or known < len(found.good):
            yield Finding(
                "over-budget", f"{name} is not known of {len(found.good) - known} of {counted(len(found.good), 'run')}"
            )
        elif min(values := _known(found, name)) < 0:
            yield Finding(
                "over-budget", f"{name}: {min(values):.4g}, which cannot be: what was restored was never done"
            )
        elif taken.high > bound:
            unit = "s" if name.startswith("rto") or name.endswith("seconds") else name.rpartition(".")[2]
            interval = f"p95 {taken.p95:.4g}, its interval ends at {taken.high:.4g}"
            value = interval if taken.count > 1 else f"{taken.high:.4g} in the only run"
            yield Finding("over-budget", f"{name}: {value}; {bound:g} {unit} allowed")


def _known(found: Tally, name: str) -> list[float]:
    return [run.figures[name] for run in found.good if name in run.figures]


def _lacking(entry: Entry, found: Tally, today: Build, now: float) -> Iterator[Finding]:
    if found.good:
        yield Finding("few", f"{len(found.good)} of {counted(entry.policy.runs, 'run')}")
    if undecided := tuple(run for run in found.undecided if run not in found.wrong):
        yield Finding("inconclusive", _inconclusive(undecided))
    if found.unexercised:
        yield Finding("not-exercised", _unexercised(entry, found))
    yield from _missed(entry, found, today, now)
    if not (found.good or found.wrong or found.undecided or found.unexercised or found.missed or found.edited):
        yield Finding("untested", f"no finished run of {', '.join(x.name for x in entry.experiments)} is on record")


def _unexercised(entry: Entry, found: Tally) -> str:
    went_in = sum(entry.path in run.entered for run in found.unexercised)
    names = ", ".join(dict.fromkeys(run.experiment for run in found.unexercised))
    if went_in:
        return f"{counted(went_in, 'run')} of {names} went in and never came out well"
    return f"{counted(len(found.unexercised), 'run')} of {names} never went through it"


def _missed(entry: Entry, found: Tally, today: Build, now: float) -> Iterator[Finding]:
    """The reason that the nearest miss has alone comes first, then the others, each with how many it keeps out."""
    if not found.missed:
        return
    kept = Counter(reason for miss in found.missed for reason in miss.reasons)
    nearest = min(found.missed, key=lambda miss: len(miss.reasons))
    first = [reason for reason in _NEAREST if reason in nearest.reasons]
    for reason in dict.fromkeys((*first, *_NEAREST)):
        if kept[reason]:
            run = next(miss.run for miss in found.missed if reason in miss.reasons)
            yield Finding(reason, f"{counted(kept[reason], 'run')} {_why(reason, entry, run, today, now)}")


def _why(reason: Reason, entry: Entry, run: Evidence, today: Build, now: float) -> str:
    match reason:
        case "stale":
            age, allowed = now - run.started, format_duration(entry.policy.fresh)
            if age < 0:
                return "from the future: one of two clocks is wrong"
            return f"too old: the newest by {_age(age)}, {allowed} allowed"
        case "other-build" if entry.policy.build == "commit":
            if not today.commit:
                return "of a commit that is not known: the target is in no repository"
            if today.dirty:
                return f"of a commit, and files differ from {today.commit[:10]} today: commit them"
            if run.build.commit == today.commit and not run.build.dirty:
                return "of this commit, with other files that git ignores or does not know"
            differs = ", with files that differed" if run.build.dirty else ""
            return f"of another commit: {run.build.commit[:10] or 'none'}{differs}, today {today.commit[:10]}"
        case "other-build":
            return f"of another build: {run.build.sources[:10]}, today {today.sources[:10]}"
        case "experiment-changed":
            return f"from before {run.experiment} was changed"
        case "overridden":
            settings = ", ".join(f"{name}={value}" for name, value in run.overrides.items())
            return f"with other settings than the experiment's: {settings}"
        case _:
            return "without a lab"


def _age(seconds: float) -> str:
    return f"{seconds / 86400:.1f} d" if seconds >= 86400 else f"{seconds / 3600:.1f} h"
