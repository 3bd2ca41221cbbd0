"""Code that only runs after a failure of a collective, a checkpoint, a store or a check, and is no declared path."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from chaos.inventory.attempts import Attempt, attempts
from chaos.inventory.concerns import About, Concerns, call_text, calls_of
from chaos.inventory.cover import Cover
from chaos.inventory.declared import Declared
from chaos.inventory.reactions import reaction
from chaos.inventory.source import Module, Program
from chaos.paths import Handler, Region

_MARK = re.compile(r"#\s*not a recovery path\b\s*:?\s*(.*)$")
# What these say is no failure of another: a missing module, the end of an iteration or of the program itself.
_NO_FAILURE = frozenset(
    {"ImportError", "ModuleNotFoundError", "StopIteration", "StopAsyncIteration", "KeyboardInterrupt", "SystemExit",
     "GeneratorExit", "CancelledError", "NotImplementedError", "AttributeError", "Empty", "Full", "FileExistsError",
     "AssertionError", "QueueEmpty", "QueueFull", "UnicodeDecodeError"}
)  # fmt: skip

# What is given or asked for is wrong, or not there: told only where something is mended.
_MISTAKES = frozenset({"TypeError", "ValueError", "KeyError", "IndexError", "LookupError"})


class Found(NamedTuple):
    """What was found in one program; `problems` are marks without their reason."""

    handlers: tuple[Handler, ...]
    problems: tuple[str, ...]


def undeclared(program: Program, declared: Declared, regions: Iterable[Region] = ()) -> Found:
    """All of it, in order of place."""
    concerns, cover = Concerns(program), Cover(program, declared, regions)
    handlers, problems = list[Handler](), list[str]()
    for module in program.modules:
        try:
            found = list(_of_module(module, program, concerns, cover))
        except RecursionError:
            problems.append(f"{module.shown}:1: nested too deeply to be looked through for handlers of failures")
            continue
        handlers += [handler for handler, attempt in found if _mark(module, attempt.place) is None]
        problems += _unreasoned(module)
    return Found(tuple(sorted(handlers, key=lambda handler: handler.spot)), tuple(problems))


def _of_module(module: Module, program: Program, concerns: Concerns, cover: Cover) -> Iterator[tuple[Handler, Attempt]]:
    for attempt in attempts(module, program):
        catches = _types(attempt.types)
        names = [each.rpartition(".")[2] for each in catches]
        if names and all(name in _NO_FAILURE for name in names):
            continue
        if names and all(_mistake(name) for name in names) and concerns.mended(attempt.failed, module) is None:
            continue
        does = reaction(attempt, module, concerns)
        about = _about(attempt, module, concerns) if does else None
        if about is None or cover.covers(attempt.place, attempt.failed, module):
            continue
        yield Handler(
            spot=module.spot(attempt.place), concern=about.concern, catches=catches, calls=about.call, does=does,
            inside=module.qualname(attempt.place),
        ), attempt  # fmt: skip


def _about(attempt: Attempt, module: Module, concerns: Concerns) -> About | None:
    if (about := concerns.first(attempt.tried, module)) is not None:
        return about
    concern = concerns.named(attempt.types, module) if attempt.types is not None else None
    concern = concern or concerns.mended(attempt.failed, module)
    if concern is None:
        return None
    calls = calls_of(attempt.tried)
    return About(concern, call_text(calls[0]) if calls else "")


def _mistake(name: str) -> bool:
    return name in _MISTAKES or name in _NO_FAILURE or name.endswith("NotFoundError")


def _types(node: ast.expr | None) -> tuple[str, ...]:
    if node is None:
        return ()
    items = node.elts if isinstance(node, ast.Tuple) else [node]
    return tuple(ast.unparse(item) for item in items)


def _mark(module: Module, node: ast.AST) -> str | None:
    """The reason of a mark on the line of a handler, or in a comment of its own on the line before."""
    line = getattr(node, "lineno", 1)
    own, before = module.lines[line - 1], module.lines[line - 2].strip() if line > 1 else ""
    for text in (own, before if before.startswith("#") else ""):
        if (found := _MARK.search(text)) is not None:
            return found[1].strip()
    return None


def _unreasoned(module: Module) -> Iterator[str]:
    for number, text in enumerate(module.lines, 1):
        if (found := _MARK.search(text)) is not None and not found[1].strip():
            yield f"{module.shown}:{number}: `# not a recovery path` without its reason: write `: REASON` behind it"
