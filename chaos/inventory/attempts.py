"""Where a program tries something that may fail, and the code that runs where it did."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from chaos.inventory.calls import last_word
from chaos.inventory.flow import within
from chaos.inventory.source import Function, Module, Program

# Functions of libraries that call another one again when it fails.
_AGAIN = frozenset(
    {"tenacity.retry", "backoff.on_exception", "backoff.on_predicate", "retrying.retry", "retry.retry", "stamina.retry",
     "retry.api.retry"}
)  # fmt: skip


class Attempt(NamedTuple):
    """`place` is the statement or decorator to point at, `holder` the statement that holds all of it."""

    place: ast.AST
    holder: ast.stmt
    tried: list[ast.stmt]
    failed: list[ast.stmt]
    types: ast.expr | None = None  # of the exceptions
    error: str | None = None  # what the exception is called in `failed`
    repeats: str = ""  # a library tries again, and how it is called


def attempts(module: Module, program: Program) -> Iterator[Attempt]:
    """All of a file: `except` clauses, `with suppress(…)`, `if not answer.ok`, and decorators that try again."""
    for node in module.nodes:
        match node:
            case ast.Try() | ast.TryStar():
                for handler in node.handlers:
                    yield Attempt(handler, node, node.body, handler.body, handler.type, handler.name)
            case ast.With() | ast.AsyncWith():
                for item in node.items:
                    if isinstance(item.context_expr, ast.Call) and last_word(item.context_expr.func) == "suppress":
                        types = ast.Tuple(elts=item.context_expr.args, ctx=ast.Load())
                        yield Attempt(node, node, node.body, [], types)
            case ast.If(test=test) if (name := _refused(test)) is not None:
                if (asked := _asked(name, node, module)) is not None:
                    yield Attempt(node, node, [asked], node.body)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                for decorator in node.decorator_list:
                    called = decorator.func if isinstance(decorator, ast.Call) else decorator
                    if program.meaning(called, module) in _AGAIN:
                        yield Attempt(decorator, node, node.body, [], repeats=ast.unparse(called))


def _refused(test: ast.expr) -> str | None:
    """The name of an answer that a condition says is none: `not a.ok`, `a.status_code != 200`, `a.status >= 500`."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=ast.Attribute(value=ast.Name(id=name), attr="ok" | "is_success")):
            return name
        case ast.Compare(
            left=ast.Attribute(value=ast.Name(id=name), attr="status" | "status_code"),
            ops=[ast.NotEq() | ast.GtE() | ast.Gt()],
        ):
            return name
    return None


def _asked(name: str, node: ast.AST, module: Module) -> ast.stmt | None:
    """The last statement before a condition that gave the answer its name."""
    function = next(module.functions_around(node), None)
    body = function.body if isinstance(function, Function) else module.tree.body
    found: ast.stmt | None = None
    for each in within(body):
        if getattr(each, "lineno", 0) >= getattr(node, "lineno", 0):
            continue
        match each:
            case ast.Assign(targets=[ast.Name(id=target)]) if target == name:
                found = each
            case ast.With(items=items) | ast.AsyncWith(items=items):
                if any(isinstance(i.optional_vars, ast.Name) and i.optional_vars.id == name for i in items):
                    found = ast.Expr(value=items[-1].context_expr)
    return found
