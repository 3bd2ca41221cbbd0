"""What code does about a failure: whether it goes on another way, or only passes it on."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from chaos.inventory.attempts import Attempt
from chaos.inventory.calls import last_word
from chaos.inventory.concerns import MENDS, Concerns, call_text
from chaos.inventory.flow import Loop, after, always_raises, goes_on, leaves_loop, loop_around, returns, within
from chaos.inventory.source import Function, Module

_SLEEPS = frozenset({"sleep", "backoff", "wait_before_retry"})
_COUNTS = frozenset({"range", "count", "backoff", "delays", "attempts"})


def reaction(attempt: Attempt, module: Module, concerns: Concerns) -> str:
    """In a few words what is done to go on; empty where it is only said, passed on or cleaned up after."""
    if attempt.repeats:
        return f"is tried again by `{attempt.repeats}`"
    if always_raises(attempt.failed):
        return ""
    if (again := _again(attempt, module)) or (done := _done(attempt.failed, attempt, module, concerns)):
        return again or done
    if _aside(attempt.failed) and returns(attempt.tried):  # what is done instead is what follows
        return _done(after(attempt.holder, module), attempt, module, concerns, calls_only=True)
    return ""


def _again(attempt: Attempt, module: Module) -> str:
    """Whether it is tried again, or with another: in a loop that success ends, or after a pause."""
    loop = loop_around(attempt.holder, module)
    if loop is None or not goes_on(attempt.failed):
        return ""
    holder, failed = attempt.holder, attempt.failed
    otherwise: list[ast.stmt] = getattr(holder, "orelse", [])
    following = after(holder, module)
    succeeds = leaves_loop(attempt.tried) or leaves_loop(otherwise)
    succeeds = succeeds or (leaves_loop(following) and (_skips(failed) or (not failed and returns(following))))
    if isinstance(loop, ast.While) or _counts(loop):
        return "tries again" if succeeds or (_sleeps(failed) and not following) else ""
    return f"goes on with the next `{_short(loop.target)}`" if succeeds else ""


def _done(
    body: list[ast.stmt], attempt: Attempt, module: Module, concerns: Concerns, *, calls_only: bool = False
) -> str:
    nodes = list(within(body, but=(ast.Raise,)))
    tried = {call_text(node) for node in within(attempt.tried) if isinstance(node, ast.Call)}
    for call in nodes:
        if not isinstance(call, ast.Call):
            continue
        if MENDS.search(last_word(call.func)):
            return f"calls `{call_text(call)}`"
        concern = concerns.direct(call, module)
        if concern is not None and call_text(call) in tried and not _mentions(_arguments(call), attempt.error):
            return f"calls `{call_text(call)}` again"
        if concern in ("collective", "checkpoint"):
            return f"calls `{call_text(call)}`"
    return "" if calls_only else _replaces(attempt, nodes, module)


def _replaces(attempt: Attempt, nodes: list[ast.AST], module: Module) -> str:
    """Whether something else stands in for what could not be had."""
    function = next(module.functions_around(attempt.holder), None)
    own = {id(node) for node in nodes}
    others = within(function.body) if isinstance(function, Function) else iter(())
    gives = any(isinstance(n, ast.Return) and n.value is not None and id(n) not in own for n in others)
    names = {ast.dump(target) for node in within(attempt.tried) for target in _targets(node)}
    for node in nodes:
        answer = node.value if isinstance(node, ast.Return) else None
        if answer is not None and gives and _stands_in(answer, attempt.error):
            return f"returns `{_short(answer)}` instead"
        for target in _targets(node):
            value = getattr(node, "value", None)
            if value is None or not _stands_in(value, attempt.error):
                continue
            if ast.dump(target) in names:
                return f"goes on with `{_short(value)}`"
            if isinstance(target, ast.Subscript) or (
                isinstance(target, ast.Attribute) and isinstance(value, ast.BinOp)
            ):
                return f"remembers it in `{_short(target)}`"
    return ""


def _stands_in(value: ast.expr, error: str | None) -> bool:
    """Whether a value is another answer, not word of the failure: no constant, no text, nothing of the exception."""
    nodes = list(ast.walk(value))
    if _mentions([value], error):
        return False
    if any(isinstance(n, ast.Constant) and isinstance(n.value, str | bytes) for n in nodes):
        return False
    if isinstance(value, ast.Call) and last_word(value.func)[:1].isupper():
        return False
    return any(isinstance(n, ast.Name) and not n.id[:1].isupper() for n in nodes)


def _aside(body: list[ast.stmt]) -> bool:
    """Whether nothing is done in the statements themselves that could end them."""
    return goes_on(body) and not any(isinstance(n, ast.Continue | ast.Return | ast.Break) for n in within(body))


def _counts(loop: Loop) -> bool:
    """`for attempt in range(3)`."""
    source = loop.iter if isinstance(loop, ast.For | ast.AsyncFor) else None
    return isinstance(source, ast.Call) and last_word(source.func) in _COUNTS


def _skips(body: list[ast.stmt]) -> bool:
    return any(isinstance(node, ast.Continue) for node in within(body))


def _sleeps(body: list[ast.stmt]) -> bool:
    return any(isinstance(node, ast.Call) and last_word(node.func) in _SLEEPS for node in within(body))


def _targets(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.Assign):
        return node.targets
    return [node.target] if isinstance(node, ast.AnnAssign) and node.value is not None else []


def _arguments(call: ast.Call) -> Iterator[ast.expr]:
    yield from call.args
    yield from (keyword.value for keyword in call.keywords)


def _mentions(values: Iterable[ast.expr], error: str | None) -> bool:
    return any(isinstance(n, ast.Name) and n.id == error for value in values for n in ast.walk(value))


def _short(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 50 else text[:49] + "…"
