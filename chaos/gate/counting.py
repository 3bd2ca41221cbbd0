"""Which recorded runs count for a path, which against it, and why the others do neither."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import ceil, floor

import msgspec

from chaos.errors import Exit
from chaos.evidence import Build, Evidence
from chaos.gate.catalogue import Entry, Policy
from chaos.gate.decision import Reason
from chaos.statistics import ENOUGH
from chaos.verdict import Outcome

_AHEAD = 3600.0  # seconds that two clocks may differ: a run from later than that would stay fresh for ever
_ENDED_BY_HAND = (Exit.INTERRUPTED, Exit.TERMINATED, Exit.USAGE)


class Miss(msgspec.Struct, frozen=True):
    """A run that does not count, and everything that keeps it from counting."""

    run: Evidence
    reasons: tuple[Reason, ...]


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """Runs of one experiment on one build, newest first; `today` whether it is today's."""

    experiment: str
    today: bool
    runs: tuple[Evidence, ...]


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """The runs of one entry, each list newest first.

    `good` is what a ruling rests on: of the newest build that was run, as many as the policy asks for, and up to what
    a p95 needs; where several builds count, the newest of others fill up what is missing. `wrong` have another verdict
    than the one required: every failed run of that build or of today's, however many passed after it, since running
    again until it passes is no repair; and those without a verdict that went through the path, until as many as asked
    came after. `records` are what a share is taken of: of an experiment on a build all runs with a verdict, and those
    that came to the path; what other experiments or other builds do must not water down a failure.
    """

    good: tuple[Evidence, ...] = ()
    wrong: tuple[Evidence, ...] = ()
    records: tuple[Record, ...] = ()
    undecided: tuple[Evidence, ...] = ()  # without a verdict: neither for nor against, unless in `wrong`
    unexercised: tuple[Evidence, ...] = ()  # with the verdict asked for, and never through the path
    missed: tuple[Miss, ...] = ()
    edited: tuple[Evidence, ...] = ()  # would have counted, for or against
    newest: Evidence | None = None  # of those that count


def tally(entry: Entry, runs: Sequence[Evidence], today: Build, now: float, edited: frozenset[str]) -> Tally:
    """Sort the runs of the entry's experiments, given oldest first."""
    names = {listed.name for listed in entry.experiments}
    asked = [(run, misses(entry, run, today, now)) for run in reversed(runs) if run.experiment in names]
    usable = [run for run, reasons in asked if not reasons and run.exit not in _ENDED_BY_HAND]
    touched = tuple(run for run in usable if run.run in edited and _matters(entry, run))
    usable = [run for run in usable if run.run not in edited]
    good, failed = _judged(entry, usable)
    undecided = [run for run in usable if not decided(run)]
    met = [run for run in undecided if entry.path in run.paths]
    counting = sorted((*good, *failed, *met), key=lambda run: (run.started, run.run), reverse=True)
    newest = counting[0].build.sources if counting else ""
    # Where any build counts, a later run of an older one must not hide what today's does.
    failed = [run for run in failed if run.build.sources in (newest, today.sources)]
    late = [run for run in counting[: entry.policy.runs] if run in met]
    unexercised = [run for run in usable if right(entry.policy, run) and entry.path not in run.paths]
    said = sorted((*good, *unexercised, *failed, *late), key=lambda run: (run.started, run.run), reverse=True)
    return Tally(
        good=_resting(good, newest, entry.policy.runs),
        wrong=(*failed, *late),
        records=tuple(_records(entry, [run for run in said if run.build.sources in (newest, today.sources)], today)),
        undecided=tuple(undecided),
        unexercised=tuple(unexercised),
        missed=tuple(Miss(run, reasons) for run, reasons in asked if reasons),
        edited=touched,
        newest=counting[0] if counting else None,
    )


def misses(entry: Entry, run: Evidence, today: Build, now: float) -> tuple[Reason, ...]:
    """Everything that keeps a run of that experiment from counting for the entry, whatever its verdict."""
    policy = entry.policy
    found: dict[Reason, bool] = {
        "experiment-changed": all(run.recipe != x.digest for x in entry.experiments if x.name == run.experiment),
        "overridden": bool(run.overrides),
        "no-lab": policy.lab == "required" and not run.lab,
        "other-build": not same_build(policy, run.build, today),
        "stale": not -_AHEAD <= now - run.started <= policy.fresh,
    }
    return tuple(reason for reason, holds in found.items() if holds)


def same_build(policy: Policy, then: Build, today: Build) -> bool:
    """Whether what was tested is what there is today, as the policy means it."""
    if policy.build == "any":
        return True
    if policy.build == "commit":
        alike = bool(today.commit) and then.commit == today.commit and not then.dirty and not today.dirty
        # git does not tell of files that it ignores or does not know yet; they run all the same.
        return alike and then.sources == today.sources
    return then.sources == today.sources


def decided(run: Evidence) -> bool:
    """Whether it has a verdict that stands: a pass of a record that does not end, or with an exit code of trouble, has
    none. A failure counts against a path though its record does not end."""
    return run.conclusive and (run.outcome is Outcome.FAIL or bool(run.journal)) and run.outcome is not Outcome.UNKNOWN


def right(policy: Policy, run: Evidence) -> bool:
    """Whether it has the verdict that the policy asks for."""
    wanted, code = (Outcome.PASS, Exit.PASS) if policy.verdict == "pass" else (Outcome.FAIL, Exit.FAIL)
    return decided(run) and bool(run.journal) and run.outcome is wanted and run.exit is code


def lacking(entry: Entry, found: Tally) -> int | None:
    """How many runs more, all with the right verdict, would do; None where no number would.

    A failed run of this build is outvoted only where the policy lets some fail, and by runs of its own experiment.
    """
    missing = short(entry, found)
    for record in found.records:
        more = outvoting(entry.policy, [run for run in record.runs if decided(run)])
        if not record.today:
            more = min(1, 1 if more is None else more)  # a run of today's build makes that one an older one
        if more is None:
            return None
        missing = max(missing, more)
    return missing


def short(entry: Entry, found: Tally) -> int:
    """How many runs through the path are missing, failures aside."""
    late = any(not decided(run) for run in found.wrong)
    return max(entry.policy.runs - len(found.good), entry.policy.runs if late else 0)


def outvoting(policy: Policy, runs: Sequence[Evidence]) -> int | None:
    """How many right runs more it takes until the wrong ones of these, newest first, are as few as the policy lets be;
    None where no number would do.

    So few of all, and of the newest ones as many as it takes to see such a share: a failure that goes on is not
    outvoted by what was before it began.
    """
    wrong = [place for place, run in enumerate(runs) if not right(policy, run)]
    if not wrong:
        return 0
    if not policy.flake_rate:
        return None
    window = window_of(policy)
    few = floor(window * policy.flake_rate + 1e-9)
    of_all = ceil(len(wrong) / policy.flake_rate - 1e-9) - len(runs)
    of_newest = window - wrong[few] if len(wrong) > few else 0
    return max(of_all, of_newest, 0)


def window_of(policy: Policy) -> int:
    """How many runs it takes to see the share that may fail: five for a fifth."""
    return ceil(1 / policy.flake_rate - 1e-9)


def _records(entry: Entry, said: Sequence[Evidence], today: Build) -> Iterator[Record]:
    came = [run for run in said if entry.path in (*run.paths, *run.entered)]
    for runs in (said, came):
        groups: dict[tuple[str, str], list[Evidence]] = {}
        for run in runs:
            groups.setdefault((run.experiment, run.build.sources), []).append(run)
        for (experiment, build), own in groups.items():
            yield Record(experiment=experiment, today=build == today.sources, runs=tuple(own))


def _matters(entry: Entry, run: Evidence) -> bool:
    return entry.path in run.paths or (decided(run) and not right(entry.policy, run))


def _judged(entry: Entry, usable: Iterable[Evidence]) -> tuple[list[Evidence], list[Evidence]]:
    good, failed = [], []
    for run in usable:
        if right(entry.policy, run):
            if entry.path in run.paths:
                good.append(run)
        elif decided(run) and (run.journal or run.outcome.value != entry.policy.verdict):
            failed.append(run)
    return good, failed


def _resting(good: Sequence[Evidence], newest: str, runs: int) -> tuple[Evidence, ...]:
    own = [run for run in good if run.build.sources == newest][: max(runs, ENOUGH)]
    others = [run for run in good if run.build.sources != newest][: max(runs - len(own), 0)]
    return (*own, *others)
