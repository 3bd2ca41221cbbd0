"""Which recovery paths the code of a target declares, and where."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from chaos.inventory.calls import last_word
from chaos.inventory.source import Module, Program
from chaos.inventory.texts import Gap, Resolver, Text
from chaos.inventory.told import FACTS, told
from chaos.paths import Spot

ENTERED = "chaos.inside.recovery_path"
DECORATED = "chaos.inside.recovers"
EMITTED = "chaos.inside.emit"


class Entry(NamedTuple):
    """A call that enters recovery paths: `recovery_path(…)`, `@recovers(…)`, or the fact told by hand."""

    module: Module
    call: ast.Call


class Declared(NamedTuple):
    """What the code says. `problems`: names that cannot be told without running it, with their place."""

    paths: dict[str, tuple[Spot, ...]]
    problems: tuple[str, ...]
    entries: tuple[Entry, ...]


def declared(program: Program, resolver: Resolver) -> Declared:
    """Every name that may be given to a recovery path; its places are where the name is written."""
    entries, known, gaps = list[Entry](), list[Text](), list[Gap]()
    for module in program.modules:
        for node in module.nodes:
            if isinstance(node, ast.Call) and (named := _named(program, module, node)) is not None:
                entries.append(Entry(module, node))
                if isinstance(named, Gap):
                    gaps.append(named)
                    continue
                texts = resolver.texts(named, module)
                known += texts.known
                gaps += texts.gaps
        gaps += _passed_on(program, module)
        for one in told(module, _facts(program, module)):
            if isinstance(one, ast.expr):
                texts = resolver.texts(one, module)
                known += texts.known
                gaps += texts.gaps
            elif isinstance(one, Gap):
                gaps.append(one)
            else:
                known.append(one)
    places: dict[str, dict[Spot, None]] = {}
    problems = [f"{gap}" for gap in gaps]
    for text, spot in known:
        if text.strip() and text.isprintable():
            places.setdefault(text, {})[spot] = None
        else:
            problems.append(f"{spot}: a recovery path is called {text!a}, which nobody could write elsewhere")
    paths = {name: tuple(sorted(spots)) for name, spots in places.items()}
    return Declared(paths, tuple(dict.fromkeys(problems)), tuple(entries))


def _named(program: Program, module: Module, call: ast.Call) -> ast.expr | Gap | None:
    """The expression that names the path which a call enters; None where it enters none."""
    given, meant = list(call.args), program.meaning(call.func, module)
    if last_word(call.func) == "partial" and given and program.meaning(given[0], module) in (ENTERED, DECORATED):
        meant, given = ENTERED, given[1:]
    keywords = {keyword.arg: keyword.value for keyword in call.keywords}
    if meant in (ENTERED, DECORATED):
        name = keywords.get("name", given[0] if given else None)
        if name is None or isinstance(name, ast.Starred):
            return Gap(module, call, "a recovery path is entered here without its name")
        return name
    if meant == EMITTED and given and isinstance(given[0], ast.Constant) and given[0].value in FACTS:
        return keywords.get("name") or Gap(module, call, "a recovery path is told without its `name=`")
    return None


def _facts(program: Program, module: Module) -> frozenset[int]:
    """The first arguments of `emit`, which are looked at where they stand."""
    calls = (node for node in module.nodes if isinstance(node, ast.Call) and node.args)
    return frozenset(id(call.args[0]) for call in calls if program.meaning(call.func, module) == EMITTED)


def _passed_on(program: Program, module: Module) -> Iterator[Gap]:
    """Where `recovery_path` is handed to somebody as a value; another name for it is none of that."""
    words = {"recovery_path", "recovers"}
    words |= {name for name, target in module.imports.items() if target.rpartition(".")[2] in words}
    called = {id(node.func) for node in module.nodes if isinstance(node, ast.Call)}
    for node in module.nodes:
        if not isinstance(node, ast.Name | ast.Attribute) or id(node) in called or last_word(node) not in words:
            continue
        if not isinstance(node.ctx, ast.Load) or program.meaning(node, module) not in (ENTERED, DECORATED):
            continue
        above = next(module.above(node))
        renamed = isinstance(above, ast.Assign | ast.AnnAssign) and not any(module.functions_around(node))
        renamed = renamed and module.class_around(node) is None
        if not renamed and not (isinstance(above, ast.Call) and last_word(above.func) == "partial"):
            yield Gap(module, node, f"`{last_word(node)}` is handed on here: which names it is given cannot be told")


def around(entry: Entry) -> Iterator[ast.AST]:
    """What runs under the path that an entry names: the body of its `with`, the function it decorates.

    Of one that is entered by hand or on a stack, the function from there on: its end is elsewhere.
    """
    module, call = entry
    for above in module.above(call):
        if isinstance(above, ast.With | ast.AsyncWith) and any(_within(item, call) for item in above.items):
            yield above
            return
        if isinstance(above, ast.FunctionDef | ast.AsyncFunctionDef):
            yield above
            return


def _within(item: ast.withitem, call: ast.Call) -> bool:
    return any(node is call for node in ast.walk(item.context_expr))
