"""An inventory of one target: what its file lists, what its code declares, and what looks like neither."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path as File

from chaos.inventory.calls import Calls
from chaos.inventory.code import Sources, Unfound
from chaos.inventory.declared import declared
from chaos.inventory.handlers import undeclared
from chaos.inventory.outside import outside
from chaos.inventory.source import read_program
from chaos.inventory.texts import Resolver
from chaos.paths import Inventory, Listed, Path, Region


def take(
    target: str,
    file: File,
    files: Iterable[File],
    listed: Sequence[Listed],
    *,
    digest: str,
    shown: Callable[[File], str],
) -> Inventory:
    """The inventory of the target whose file is `file`; `files` are its sources, `shown` says how they are called."""
    sources = Sources(file.parent.resolve(), tuple(files), shown)
    regions, unfound = _regions(listed, sources)
    program = read_program(sources.files, sources.base, shown)
    found = declared(program, Resolver(program, Calls(program)))
    others = undeclared(program, found, regions.values())
    by_name = {entry.name: entry.spot for entry in listed}
    return Inventory(
        target=target,
        file=shown(file),
        sources=digest,
        paths=tuple(
            Path(
                name=name,
                listed=by_name.get(name),
                declared=(*found.paths.get(name, ()), *((regions[name].spot,) if name in regions else ())),
                code=regions.get(name),
            )
            for name in sorted({*found.paths, *by_name})
        ),
        undeclared=others.handlers,
        problems=(
            *program.problems,
            *found.problems,
            *others.problems,
            *unfound,
            *outside(program, file, sources.files, shown),
        ),
    )


def _regions(listed: Sequence[Listed], sources: Sources) -> tuple[dict[str, Region], list[str]]:
    """The code of paths of a program that was not changed, and what of it is not there."""
    found: dict[str, Region] = {}
    problems: list[str] = []
    for entry in listed:
        if entry.code:
            try:
                found[entry.name] = sources.region(entry)
            except Unfound as reason:
                problems.append(f"{entry.spot}: `{entry.name}`: {reason}")
    return found, problems
