"""The decision itself: every declared path against the catalogue, every entry against the code, every waiver."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from chaos.evidence import Build, Evidence
from chaos.gate.catalogue import Entry
from chaos.gate.commands import shortest, written
from chaos.gate.counting import tally
from chaos.gate.decision import Command, Decision, Finding, Kind, Reason, Ruling, State, Verdict
from chaos.gate.question import Question
from chaos.gate.reasons import asides, figures_of, findings
from chaos.gate.suggesting import advise, remedy, suggestion
from chaos.gate.waiving import uses, waived
from chaos.paths import Inventory, Path, Spot
from chaos.units import counted

_STATES = (State.BLOCKED, State.WAIVED, State.WARNED, State.PROVED)


def decide(question: Question) -> Decision:
    """Pure: the same question has the same answer.

    Open only where every declared path is proved or waived, at least one is proved, and nothing is in the catalogue
    that the targets do not have. Without any run, target or declared path there is no data, which is never open.
    """
    runs = {inventory.target: _of(question, inventory.target) for inventory in question.inventories}
    rulings = [ruling for inventory in question.inventories for ruling in _rulings(question, inventory, runs)]
    rulings = [waived(ruling, question) for ruling in rulings]
    calling = question.calling
    rulings = [msgspec.structs.replace(r, commands=written(r.todo, calling)) for r in rulings]
    rulings.sort(key=lambda r: (_STATES.index(r.state), r.kind != "path", r.target, r.name))
    appeared, vanished = _since(question)
    verdict, headline = _verdict(question, rulings)
    return Decision(
        verdict=verdict,
        headline=headline,
        rulings=tuple(rulings),
        waivers=uses(rulings, question),
        commands=shortest([r for r in rulings if r.state is State.BLOCKED], calling),
        decided=question.now,
        builds={i.target: i.sources for i in question.inventories},
        appeared=appeared,
        vanished=vanished,
    )


def _of(question: Question, target: str) -> tuple[Evidence, ...]:
    return tuple(run for run in question.runs if run.target == target)


def _rulings(question: Question, inventory: Inventory, runs: Mapping[str, Sequence[Evidence]]) -> Iterator[Ruling]:
    target, catalogue = inventory.target, question.catalogue
    own = runs[target]
    for path in inventory.paths:
        entry = catalogue.entry(target, path.name)
        if not path.declared:
            yield _unkept(target, path)
        elif entry is None:
            yield _new(question, target, path, own)
        else:
            yield _proof(question, entry, path, own)
    for entry in catalogue.entries:
        if entry.target == target and inventory.find(entry.path) is None:
            yield _gone(question, entry)
    yield from _unknown(inventory, question.builds.get(target, Build(sources="")), own)
    for handler in inventory.undeclared:
        state = State.BLOCKED if catalogue.policy.undeclared == "block" else State.WARNED
        caught = f" ({', '.join(handler.catches)})" if handler.catches else ""
        does = handler.does or "goes on"
        detail = f"where {handler.calls or 'it'} fails{caught}, the code {does}, outside any declared path"
        yield _plain("handler", target, handler.inside, handler.spot, "undeclared", detail, state)
    for problem in inventory.problems:
        yield _plain("source", target, "sources", None, "unreadable", problem)


def _proof(question: Question, entry: Entry, path: Path, runs: Sequence[Evidence]) -> Ruling:
    today = question.builds.get(entry.target, Build(sources=""))
    found = tally(entry, runs, today, question.now, question.edited)
    figures = figures_of(entry, found)
    reasons = findings(entry, found, figures, today, question.now)
    ruling = Ruling(
        target=entry.target,
        name=path.name,
        where=path.where,
        state=State.BLOCKED if reasons else State.PROVED,
        asked=entry.policy.runs,
        runs=tuple(run.run for run in found.good),
        against=tuple(run.run for run in (*found.wrong, *found.edited)),
        figures=figures,
    )
    if not reasons:
        return msgspec.structs.replace(ruling, notes=tuple(asides(entry, found)))
    todo, first = remedy(question, entry, found, runs, reasons[0].reason), reasons[0]
    advice = advise(first.reason, found, today, question.calling.here)
    return msgspec.structs.replace(ruling, why=first, notes=tuple(reasons[1:]), todo=todo, advice=advice)


def _new(question: Question, target: str, path: Path, runs: Sequence[Evidence]) -> Ruling:
    before = _names(question.before)
    appeared = before is not None and f"{target}:{path.name}" not in before
    detail = "appeared since the last release, and is not in the catalogue" if appeared else "not in the catalogue"
    todo, advice = suggestion(question, target, path.name, runs)
    ruling = _plain("path", target, path.name, path.where, "new", f"declared at {path.where}, {detail}")
    return msgspec.structs.replace(ruling, todo=todo, advice=advice, asked=question.catalogue.policy.runs)


def _gone(question: Question, entry: Entry) -> Ruling:
    before = _names(question.before)
    detail = "in the catalogue, and the target declares it no more"
    if before is not None and entry.name in before:
        detail += "; the last release had it"
    ruling = _plain("path", entry.target, entry.path, entry.spot, "gone", detail)
    return msgspec.structs.replace(ruling, todo=Command(remove=entry.name))


def _unknown(inventory: Inventory, today: Build, runs: Sequence[Evidence]) -> Iterator[Ruling]:
    """Paths that this very build went through, and that nobody found in its sources: a name that is only known when
    the program runs, in a file that is not read, or told by another program."""
    first: dict[str, str] = {}
    for run in runs:
        for name in (*run.paths, *run.entered) if run.build.sources == today.sources else ():
            first.setdefault(name, run.run)
    for name in sorted(name for name in first if inventory.find(name) is None):
        detail = f"recorded by {first[name]} on this build, and neither the sources nor the target file have it"
        advice = "list it in the target file, and name it where `chaos paths` finds it"
        ruling = _plain("path", inventory.target, name, None, "new", detail)
        yield msgspec.structs.replace(ruling, advice=advice)


def _unkept(target: str, path: Path) -> Ruling:
    ruling = _plain("path", target, path.name, path.listed, "unkept", "listed in the target file, and no code has it")
    return msgspec.structs.replace(ruling, advice="declare it where it happens, or take it out of the target file")


def _plain(
    kind: Kind, target: str, name: str, where: Spot | None, reason: Reason, detail: str,
    state: State = State.BLOCKED,
) -> Ruling:  # fmt: skip
    return Ruling(kind=kind, target=target, name=name, where=where, state=state, why=Finding(reason, detail))


def _names(inventories: Sequence[Inventory] | None) -> frozenset[str] | None:
    """Of all paths that code declares."""
    if inventories is None:
        return None
    return frozenset(f"{i.target}:{path.name}" for i in inventories for path in i.paths if path.declared)


def _since(question: Question) -> tuple[tuple[str, ...] | None, tuple[str, ...] | None]:
    """What appeared and what vanished; a target that is asked about no more takes all its paths with it."""
    before, now = _names(question.before), _names(question.inventories) or frozenset()
    if before is None:
        return None, None
    return tuple(sorted(now - before)), tuple(sorted(before - now))


def _verdict(question: Question, rulings: Sequence[Ruling]) -> tuple[Verdict, str]:
    paths = [r for r in rulings if r.kind == "path"]
    proved = sum(r.state is State.PROVED for r in paths)
    if not question.inventories:
        return Verdict.NO_DATA, "no target is named, so nothing can be proved"
    if not _names(question.inventories):
        return Verdict.NO_DATA, "no target declares a recovery path, so nothing can be proved"
    if not question.runs:
        return Verdict.NO_DATA, "no run is on record, so nothing is proved"
    count = f"{proved} of {counted(len(paths), 'recovery path')} proved"
    blocked = [r for r in rulings if r.state is State.BLOCKED]
    if blocked:
        words = Counter(r.why.reason for r in blocked if r.why)
        return Verdict.BLOCKED, f"{count}; " + ", ".join(f"{n} {word}" for word, n in words.most_common())
    if not proved:
        return Verdict.NO_DATA, f"{count}: all are waived, so nothing is proved"
    if waived_ := sum(r.state is State.WAIVED for r in paths):
        count += f", {waived_} waived"
    return Verdict.OPEN, count
