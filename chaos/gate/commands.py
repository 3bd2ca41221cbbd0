"""What is to be done as commands for a shell: of one path, and the fewest that do all."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Sequence

from chaos.gate.decision import Command, Ruling
from chaos.gate.question import Calling


def written(todo: Command | None, calling: Calling) -> tuple[str, ...]:
    """One line for a shell, its parts joined by `&&`; nothing where nothing is to be done."""
    if todo is None:
        return ()
    parts = [_gate((todo.add,) if todo.add else (), (todo.remove,) if todo.remove else (), calling)]
    parts += [_run(todo.run if todo.every else todo.run[:1], todo.repeat, calling)]
    line = " && ".join(filter(None, parts))
    return (line,) if line else ()


def shortest(blocked: Sequence[Ruling], calling: Calling) -> tuple[str, ...]:
    """One change of the catalogue, then the runs: an experiment that proves several paths is run once for all."""
    todos = [ruling.todo for ruling in blocked if ruling.todo]
    change = _gate([t.add for t in todos if t.add], [t.remove for t in todos if t.remove], calling)
    by_repeat: dict[int, list[str]] = defaultdict(list)
    for file, repeat in cover([need for t in todos for need in _needs(t)]).items():
        by_repeat[repeat].append(file)
    runs = [_run(files, repeat, calling) for repeat, files in sorted(by_repeat.items())]
    return tuple(filter(None, [change, *runs]))


def _needs(todo: Command) -> list[tuple[tuple[str, ...], int]]:
    if todo.every:
        return [((file,), todo.repeat) for file in todo.run]
    return [(todo.run, todo.repeat)] if todo.run else []


def cover(needs: Sequence[tuple[tuple[str, ...], int]]) -> dict[str, int]:
    """How often to run which file so that each need, any one of its files so many times, is met.

    The file that meets most needs is taken first, as long as any are open; of equal ones the one that is named first.
    """
    still = list(needs)
    chosen: dict[str, int] = {}
    while still:
        offers: dict[str, list[int]] = defaultdict(list)
        for files, repeat in still:
            for file in files:
                offers[file].append(repeat)
        best = max(offers, key=lambda file: len(offers[file]))
        chosen[best] = max(chosen.get(best, 0), *offers[best])
        still = [need for need in still if best not in need[0]]
    return chosen


def _gate(add: Sequence[tuple[str, str]], remove: Sequence[str], calling: Calling) -> str:
    if not add and not remove:
        return ""
    words = ["chaos", "gate", *calling.gate]
    words += [word for path, file in add for word in ("--add", f"{path}={file}")]
    words += [word for path in remove for word in ("--remove", path)]
    return shlex.join(words)


def _run(files: Sequence[str], repeat: int, calling: Calling) -> str:
    if not files:
        return ""
    times = ["--repeat", str(repeat)] if repeat > 1 else []
    return shlex.join(["chaos", "run", *files, *times, *calling.run])
