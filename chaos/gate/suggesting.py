"""What would prove a path: runs that are missing, or an experiment that leads through it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from chaos.evidence import Build, Evidence
from chaos.gate.catalogue import Candidate, Entry, Policy, Recipe
from chaos.gate.counting import Tally, decided, lacking, outvoting, short, tally
from chaos.gate.decision import Command, Reason
from chaos.gate.question import Question
from chaos.gate.reasons import figures_of, findings
from chaos.paths import Spot

_SAY_NOTHING = frozenset({"and", "back", "for", "from", "into", "its", "not", "over", "own", "the", "with"})
_NEED_A_REPAIR = ("edited", "over-budget")


def remedy(question: Question, entry: Entry, found: Tally, runs: Sequence[Evidence], reason: Reason) -> Command | None:
    """What to run for an entry that is not proved; None where running more would not help."""
    if reason in _NEED_A_REPAIR or not (missing := lacking(entry, found)):
        return None
    if reason == "not-exercised":
        return suggestion(question, entry.target, entry.path, runs, entry)[0]
    through = {run.experiment for run in runs if entry.path in run.paths}
    likely = [x.file for x in entry.experiments if x.name in through] or [x.file for x in entry.experiments]
    # A failure that may be one of a few is asked about where it was seen.
    failed = {r.experiment for r in found.records if outvoting(entry.policy, [x for x in r.runs if decided(x)]) != 0}
    if not failed:
        return Command(run=tuple(likely), repeat=missing)
    again = [x.file for x in entry.experiments if x.name in failed]
    if short(entry, found) and not failed & through:
        again.append(next((file for file in likely if file not in again), again[0]))
    return Command(run=tuple(dict.fromkeys(again)), every=True, repeat=missing)


def suggestion(
    question: Question, target: str, path: str, runs: Sequence[Evidence], entry: Entry | None = None
) -> tuple[Command | None, str]:
    """An experiment to list for a path, and how often to run it; with what a person should know of the choice.

    One of which a run on this build went through it is known to do; else one whose name or tags speak of it is a
    guess. Those that `entry` has already are left out.
    """
    today = question.builds.get(target, Build(sources=""))
    policy = entry.policy if entry else question.catalogue.policy
    known = {listed.file for listed in entry.experiments} if entry else set()
    offered = [c for c in _of_target(question, target) if c.file not in known]
    offered = [c for c in offered if not c.defect or policy.verdict == "fail"]  # no catalogue takes another
    through = {run.experiment for run in runs if path in run.paths and run.build.sources == today.sources}
    title = f"{target}:{path}"
    trials = [(c, *_still(question, c, (target, path), policy, runs)) for c in offered if c.name in through]
    if trials:
        # Known to go through it, and not able to prove it as this build is, is still better than a guess.
        candidate, missing, trouble = min(trials, key=lambda t: (bool(t[2]), -_alike(t[0], path)))
        run = (candidate.file,) if missing else ()
        advice = f"{candidate.name} goes through it, and on this build proves nothing: {trouble}" if trouble else ""
        return Command(add=(title, candidate.file), run=run, repeat=missing or 1), advice
    best = max(offered, key=lambda c: _alike(c, path), default=None)
    if best is None or not _alike(best, path):
        return None, f"no experiment is known to go through it: write one, then `chaos gate --add {title}=FILE`"
    advice = f"{best.name} is a guess by name and tags: no run of it on this build went through here"
    return Command(add=(title, best.file), run=(best.file,), repeat=policy.runs), advice


def advise(reason: Reason, found: Tally, today: Build, here: str) -> str:
    """What no command can do; folders below `here` are named from there."""

    def folder(run: Evidence) -> str:
        return run.folder.removeprefix(f"{here}/") if here else run.folder

    if reason == "edited":
        names = ", ".join(map(folder, found.edited))
        return f"put the journal back as it was, or remove {names}: then the run stands as it was judged when it ended"
    if reason in ("failing", "over-budget") or (reason == "flaky" and found.wrong):
        run = (found.wrong or found.good)[0]
        return f"read {folder(run)}/report.html; what mends it is another build, whose paths are all proved again"
    if reason == "other-build" and today.dirty:
        return "with `build: commit`, what differs must be committed first"
    return ""


def _still(
    question: Question, candidate: Candidate, path: tuple[str, str], policy: Policy, runs: Sequence[Evidence]
) -> tuple[int, str]:
    """How many runs would be missing if the candidate were listed, and why no number would do."""
    listed = Recipe(name=candidate.name, file=candidate.file, digest=candidate.digest)
    entry = Entry(target=path[0], path=path[1], experiments=(listed,), policy=policy, spot=Spot("", 0))
    today = question.builds[path[0]]
    found = tally(entry, runs, today, question.now, question.edited)
    missing = lacking(entry, found)
    reasons = findings(entry, found, figures_of(entry, found), today, question.now)
    if reasons and (missing is None or reasons[0].reason in _NEED_A_REPAIR):
        return 0, f"{reasons[0].reason}: {reasons[0].detail}"
    return missing or 0, ""


def _of_target(question: Question, target: str) -> list[Candidate]:
    return [candidate for candidate in question.candidates if candidate.target == target]


def _alike(candidate: Candidate, path: str) -> int:
    """How much of a path's name the experiment says of itself."""
    words = {word[:5] for word in re.split(r"[^a-z0-9]+", path.lower()) if len(word) > 2} - _SAY_NOTHING
    return sum(max((n for other, n in candidate.words.items() if other[:5] == word), default=0) for word in words)
