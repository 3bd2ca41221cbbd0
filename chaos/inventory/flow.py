"""Which way statements leave: by an exception, out of a loop, or to what comes after them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from chaos.inventory.calls import last_word
from chaos.inventory.source import Function, Module

Loop = ast.For | ast.AsyncFor | ast.While
# Calls that end the process.
_ENDS = frozenset({"exit", "_exit", "abort", "leave"})


def within(nodes: Iterable[ast.AST], but: tuple[type[ast.AST], ...] = ()) -> Iterator[ast.AST]:
    """All nodes that run with those statements: not what functions in them do later; in the order of the text.

    Nodes of the types `but` are left out with all that is in them.
    """
    pending: list[ast.AST] = list(reversed(list(nodes)))
    while pending:
        node = pending.pop()
        if isinstance(node, but):
            continue
        yield node
        if not isinstance(node, Function | ast.Lambda | ast.ClassDef):
            pending.extend(reversed(list(ast.iter_child_nodes(node))))


def always_raises(body: list[ast.stmt]) -> bool:
    """Whether statements end in an exception, or the end of the process, on every way through them."""
    if not body:
        return False
    match body[-1]:
        case ast.Raise():
            return True
        case ast.Expr(value=ast.Call(func=function)):
            return last_word(function) in _ENDS
        case ast.If(body=then, orelse=otherwise):
            return always_raises(then) and always_raises(otherwise)
        case ast.With(body=inner) | ast.AsyncWith(body=inner) | ast.Try(body=inner, finalbody=[]):
            return always_raises(inner)
    return False


def goes_on(body: list[ast.stmt]) -> bool:
    """Whether some way through the statements reaches what comes after them, or the next turn of the loop."""
    if not body:
        return True
    match body[-1]:
        case ast.Raise() | ast.Return() | ast.Break():
            return False
        case ast.If(body=then, orelse=otherwise):
            return goes_on(then) or goes_on(otherwise)
        case ast.Expr(value=ast.Call(func=function)):
            return last_word(function) not in _ENDS
        case ast.With(body=inner) | ast.AsyncWith(body=inner):
            return goes_on(inner)
    return True


def loop_around(node: ast.AST, module: Module) -> Loop | None:
    """The loop that a statement is in, in the same function."""
    for above in module.above(node):
        if isinstance(above, Function | ast.Lambda | ast.ClassDef):
            return None
        if isinstance(above, Loop):
            return above
    return None


def after(node: ast.stmt, module: Module) -> list[ast.stmt]:
    """The statements that follow in the same block."""
    above = next(module.above(node), None)
    for name in ("body", "orelse", "finalbody"):
        block = getattr(above, name, None)
        if isinstance(block, list) and node in block:
            return block[block.index(node) + 1 :]
    return []


def leaves_loop(body: list[ast.stmt]) -> bool:
    """Whether some way through the statements returns, or breaks out of the loop that they are in."""
    return any(isinstance(node, ast.Return | ast.Break) for node in _own(body))


def returns(body: list[ast.stmt]) -> bool:
    """Whether some way through the statements returns."""
    return any(isinstance(node, ast.Return) for node in within(body))


def _own(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """Statements in which a `break` means the loop around them; of loops among them, the `return`s only."""
    for node in body:
        if isinstance(node, Function | ast.ClassDef):
            continue
        if isinstance(node, Loop):
            yield from (inner for inner in within(node.body) if isinstance(inner, ast.Return))
            continue
        yield node
        for name in ("body", "orelse", "finalbody"):
            yield from _own(getattr(node, name, []))
        for handler in getattr(node, "handlers", []):
            yield from _own(handler.body)
