"""The verb `gate`: what must be proved, what was proved, and whether that is enough."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from chaos.archive import NAME
from chaos.build import commit
from chaos.clean import clean
from chaos.cli.evidence import Collected, collect, contradicted, touched
from chaos.cli.output import columns
from chaos.cli.paths import inventory_of
from chaos.errors import Exit, Problem, SpecError
from chaos.evidence import Build
from chaos.gate import Calling, Catalogue, Decision, Question, State, decide
from chaos.inventory.findings import Finding, Rule
from chaos.load.gate import candidates, load_catalogue, named
from chaos.paths import Inventory

CATALOGUE = "ci/recovery_paths.yaml"
_RUNS = "runs"
_COULD_BE_SUGGESTED = ("new", "not-exercised")
_TOLD_BY_INVENTORY = ("undeclared", "unkept", "unreadable")
UNPROVED = Rule(
    id="unproved-recovery-path",
    title="A recovery path is not proved",
    help="No run on record shows that this path works on this build; `chaos gate` says why, and what would prove it.",
    level="error",
)


def main(call: argparse.Namespace) -> int:
    """Change the catalogue where that is asked, else decide."""
    if not os.path.lexists(call.catalogue):
        fix = "it says what must be proved, docs/gate.md shows one; --catalogue FILE where it is elsewhere"
        raise SpecError([Problem(call.catalogue, 0, 0, "there is no such catalogue", fix)])
    if call.add or call.remove:
        from chaos.load.gate_edit import edit

        for line in edit(Path(call.catalogue), call.add, call.remove):
            print(line)
        return Exit.PASS
    catalogue = load_catalogue(call.catalogue)
    inventories = tuple(inventory_of(file) for file in catalogue.targets)
    stores, folders = sources(call)
    found = collect(stores, folders)
    decision = settle(_question(call, catalogue, inventories, found), found, verify=call.verify)
    _write(call, decision, inventories)
    _show(decision, found, quiet=call.quiet)
    out, asked = _kept(call)
    if not asked and any(" run " in command for command in decision.commands):
        print(f"chaos: what is run is kept in {out / NAME}: ask about that as well (--store)", file=sys.stderr)
    return decision.verdict.exit


def sources(call: argparse.Namespace) -> tuple[list[Path], list[Path]]:
    """The stores and the folders of runs that are asked for; the usual store where nothing is."""
    stores, folders = [Path(s) for s in call.store], [Path(r) for r in call.runs]
    return (stores, folders) if stores or folders else ([Path(_RUNS, NAME)], [])


def settle(question: Question, found: Collected, *, verify: bool = False) -> Decision:
    """Decide, and decide again without the runs whose journal is found to be another than was judged; to `verify` is to
    judge them again, and to mind what the store says else than that."""
    known = {run.run: run for run in question.runs}
    edited, verified = found.conflicting, frozenset[str]()
    while True:
        question = msgspec.structs.replace(question, edited=edited)
        decision = decide(question)
        if not question.candidates and _suggestible(decision):
            question = msgspec.structs.replace(question, candidates=candidates(question.catalogue))
            decision = decide(question)
        asked = decision.leaned - verified
        doubted = (run for run in asked if touched(known[run]) or (verify and contradicted(known[run])))
        edited |= frozenset(doubted)
        verified |= asked
        if not asked or edited == question.edited:
            return decision


def _suggestible(decision: Decision) -> bool:
    return any(r.why and r.why.reason in _COULD_BE_SUGGESTED for r in decision.rulings if r.state is not State.PROVED)


def _question(
    call: argparse.Namespace, catalogue: Catalogue, inventories: tuple[Inventory, ...], found: Collected
) -> Question:
    builds = {}
    for inventory in inventories:
        oid, dirty = commit(Path(inventory.file).parent)
        builds[inventory.target] = Build(sources=inventory.sources, commit=oid, dirty=dirty)
    return Question(
        catalogue=catalogue,
        inventories=inventories,
        builds=builds,
        runs=found.runs,
        now=time.time(),
        before=_before(call.since) if call.since else None,
        calling=_calling(call),
    )


def _calling(call: argparse.Namespace) -> Calling:
    """A command must end up in the catalogue and in the store that were asked about."""
    gate = () if call.catalogue == CATALOGUE else ("--catalogue", call.catalogue)
    out, _ = _kept(call)
    return Calling(here=str(Path.cwd()), gate=gate, run=() if named(out) == _RUNS else ("--out", named(out)))


def _kept(call: argparse.Namespace) -> tuple[Path, bool]:
    """Where what is run next is to be kept, and whether it was asked about: `chaos run` names the store itself."""
    stores, folders = sources(call)
    asked = [*folders, *(store.parent for store in stores if store.name == NAME)]
    return (asked or [stores[0].parent])[0], bool(asked)


def _before(files: Sequence[str]) -> tuple[Inventory, ...]:
    """What `chaos paths --json` said at the last release: an inventory a file, or a list of them."""
    found: list[Inventory] = []
    for file in files:
        try:
            read = msgspec.json.decode(Path(file).read_bytes(), type=Inventory | list[Inventory])
        except OSError as error:
            raise SpecError(f"--since {file}: {error.strerror}") from error
        except msgspec.MsgspecError as error:
            raise SpecError(f"--since {file}: {error}; `chaos paths TARGET --json` writes one") from error
        found += read if isinstance(read, list) else [read]
    return tuple(found)


def _write(call: argparse.Namespace, decision: Decision, inventories: Sequence[Inventory]) -> None:
    """The files that are asked for, each whole or not at all; a gate that cannot say what it found is not open."""
    from chaos.gate import badge, junit, markdown
    from chaos.inventory import sarif
    from chaos.report.files import put

    encoders: dict[str, Callable[[Decision], bytes]] = {
        "junit": junit.encode,
        "markdown": markdown.encode,
        "json": _json,
        "badge": badge.encode,
        "sarif": lambda decided: sarif.encode(inventories, _findings(decided)),
    }
    for name, encode in encoders.items():
        if path := getattr(call, name):
            try:
                Path(path).parent.mkdir(parents=True, exist_ok=True)
                put(Path(path), encode(decision))
            except OSError as error:
                raise SpecError(f"--{name} {path}: {error.strerror}") from error


def _findings(decision: Decision) -> Iterator[Finding]:
    """What blocks, at its place in the code or in the catalogue; what an inventory tells by itself is left to it."""
    for ruling in decision.blocked:
        if ruling.why is not None and ruling.why.reason not in _TOLD_BY_INVENTORY:
            # Without counts and ages: a page of findings takes one whose words change for another one.
            said = f"`{ruling.title}` is not proved on this build: {ruling.why.reason}"
            message = clean(f"{said}; `chaos gate` says what would prove it")
            yield Finding(rule=UNPROVED, message=message, spot=ruling.where, inside="")


def _json(decision: Decision) -> bytes:
    return msgspec.json.format(msgspec.json.encode(decision), indent=2) + b"\n"


def _show(decision: Decision, found: Collected, *, quiet: bool) -> None:
    from chaos.gate.text import text

    terminal = sys.stdout.isatty()
    color = terminal and "NO_COLOR" not in os.environ
    sys.stdout.write(text(decision, width=columns() if terminal else None, color=color, quiet=quiet))
    for line in found.remarks:
        print(f"chaos: {line}", file=sys.stderr)
