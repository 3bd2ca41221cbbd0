"""An inventory of one target: what its file lists, what its code declares, and what looks like neither."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path as File

from chaos.inventory.calls import Calls
from chaos.inventory.declared import declared
from chaos.inventory.source import read_program
from chaos.inventory.texts import Resolver
from chaos.paths import Inventory, Listed, Path


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
    program = read_program(files, file.parent.resolve(), shown)
    found = declared(program, Resolver(program, Calls(program)))
    by_name = {entry.name: entry.spot for entry in listed}
    names = sorted({*found.paths, *by_name})
    return Inventory(
        target=target,
        file=shown(file),
        sources=digest,
        paths=tuple(Path(name=name, listed=by_name.get(name), declared=found.paths.get(name, ())) for name in names),
        problems=(*program.problems, *found.problems),
    )
