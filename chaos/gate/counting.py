"""Which recorded runs count for a path, which against it, and why the others do neither."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil

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


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """The runs of one entry, each list newest first.

    `good` is what a ruling rests on: of the newest build that was run, as many as the policy asks for, and up to what
    a p95 needs; where several builds count, the newest of others fill up what is missing. `wrong` have another verdict
    than the one required: every failed run of that build or of today's, however many passed after it, since running
    again until it passes is no repair; and those without a verdict that went through the path, until as many as asked
    came after.
    """

    good: tuple[Evidence, ...] = ()
    wrong: tuple[Evidence, ...] = ()
    counting: int = 0  # good and wrong ones of the newest build, all of them
    undecided: tuple[Evidence, ...] = ()  # without a verdict: neither for nor against, unless in `wrong`
    unexercised: tuple[Evidence, ...] = ()  # with the verdict asked for, and never through the path
    missed: tuple[Miss, ...] = ()
    edited: tuple[Evidence, ...] = ()  # would have counted, for or against
    newest: Evidence | None = None  # of those that count

    @property
    def share(self) -> float:
        """Of the runs that count, how many have the wrong verdict."""
        return len(self.wrong) / self.counting if self.counting else 0.0


def tally(entry: Entry, runs: Sequence[Evidence], today: Build, now: float, edited: frozenset[str]) -> Tally:
    """Sort the runs of the entry's experiments, given oldest first."""
    names = {listed.name for listed in entry.experiments}
    asked = [(run, misses(entry, run, today, now)) for run in reversed(runs) if run.experiment in names]
    usable = [run for run, reasons in asked if not reasons and run.exit not in _ENDED_BY_HAND]
    touched = tuple(run for run in usable if run.run in edited and _matters(entry, run))
    usable = [run for run in usable if run.run not in edited]
    good, failed = _judged(entry, usable)
    newest = next((run.build.sources for run in usable), "")
    # Where any build counts, a later run of an older one must not hide what today's does.
    failed = [run for run in failed if run.build.sources in (newest, today.sources)]
    undecided = [run for run in usable if not decided(run)]
    met = [run for run in undecided if entry.path in run.paths]
    counting = sorted((*good, *failed, *met), key=lambda run: (run.started, run.run), reverse=True)
    late = [run for run in counting[: entry.policy.runs] if run in met]
    of_newest = [run for run in good if run.build.sources == newest]
    return Tally(
        good=_resting(good, newest, entry.policy.runs),
        wrong=(*failed, *late),
        counting=len(of_newest) + len(failed) + len(late),
        undecided=tuple(undecided),
        unexercised=tuple(run for run in usable if right(entry.policy, run) and entry.path not in run.paths),
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


def lacking(entry: Entry, found: Tally) -> int:
    """How many runs more, all with the right verdict, would do; 0 where no number would.

    A failed run of this build is outvoted only where the policy lets some fail.
    """
    policy = entry.policy
    failed = sum(decided(run) for run in found.wrong)
    if failed and not policy.flake_rate:
        return 0
    late = len(found.wrong) - failed
    missing = max(policy.runs - len(found.good), policy.runs if late else 0)
    if failed:
        steady = found.counting - late
        missing = max(missing, ceil(failed / policy.flake_rate - 1e-9) - steady, 1)
    return missing


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
