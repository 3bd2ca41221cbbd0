"""Recovery paths that a program comes to by words: facts that it prints, and names behind which the call is hidden."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from contextlib import suppress

from chaos.inventory.source import Module
from chaos.inventory.texts import Gap, Text

FACTS = ("path.entered", "path.exercised")
_HIDDEN = re.compile(r"\b(recovery_path|recovers)\b|^chaos\.inside$")
_CODE = frozenset({"eval", "exec", "compile"})


def told(module: Module, known: frozenset[int]) -> Iterator[Text | ast.expr | Gap]:
    """The texts and expressions that name a path, and gaps where it is hidden which; `known` are the nodes (`id`) that
    are understood already: the first argument of `emit`."""
    for node in module.nodes:
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or id(node) in known:
            continue
        above = next(module.above(node))
        if isinstance(above, ast.Expr | ast.Compare | ast.MatchValue) or _exported(module, node):
            continue
        if any(fact in node.value for fact in FACTS):
            yield _fact(module, node, above)
        elif _hides(node.value, above):
            yield Gap(
                module, node, f"`{node.value.strip()[:40]}` as a text: which recovery path it leads to is not known"
            )


def _fact(module: Module, node: ast.Constant, above: ast.AST) -> Text | ast.expr | Gap:
    """A line of JSON as it is printed, or a table that will be one."""
    if isinstance(above, ast.Dict):
        pairs = zip(above.keys, above.values, strict=True)
        named = {key.value: value for key, value in pairs if isinstance(key, ast.Constant)}
        if named.get("kind") is node and "name" in named:
            return named["name"]
    line = None
    if isinstance(above, ast.Call | ast.Assign | ast.Return):  # and nothing is put into it
        with suppress(ValueError):
            line = json.loads(str(node.value))
    if isinstance(line, dict) and line.get("kind") in FACTS and isinstance(line.get("name"), str):
        return Text(line["name"], module.spot(node))
    return Gap(module, node, "a recovery path is told by hand: its name cannot be told")


def _hides(text: str, above: ast.AST) -> bool:
    """Whether a text stands for `chaos.inside.recovery_path`: an attribute asked for by name, or code to be run."""
    if (found := _HIDDEN.search(text)) is None:
        return False
    called = isinstance(above, ast.Call) and isinstance(above.func, ast.Name) and above.func.id in _CODE
    return called or found.group() == text


def _exported(module: Module, node: ast.AST) -> bool:
    """`__all__ = ["recovery_path"]`"""
    return any(
        isinstance(above, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in above.targets)
        for above in module.above(node)
    )
