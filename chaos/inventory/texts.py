"""Which texts an expression can be, told from the sources alone: constants, tables, and what callers hand over."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterable
from typing import NamedTuple

from chaos.inventory.bindings import Bindings, parameters
from chaos.inventory.calls import Calls, last_word
from chaos.inventory.source import Function, Module, Program
from chaos.paths import Spot

_MOST = 200  # texts that one expression may be: more is no list of names
_COPIES = frozenset({"MappingProxyType", "frozenset", "tuple", "set", "list", "sorted"})


class Text(NamedTuple):
    """One text, and where it is written."""

    text: str
    spot: Spot


class Gap(NamedTuple):
    """An expression of which nobody can say without running it what it is."""

    module: Module
    node: ast.AST
    reason: str

    def __str__(self) -> str:
        return f"{self.module.spot(self.node)}: {self.reason}"


class Texts(NamedTuple):
    """All that an expression can be; with gaps, perhaps more."""

    known: tuple[Text, ...] = ()
    gaps: tuple[Gap, ...] = ()


class _Here(NamedTuple):
    """The file that an expression stands in, and what is being looked up already: names may be rings."""

    module: Module
    seen: frozenset[tuple[int, str]] = frozenset()

    def within(self, node: ast.AST, name: str, module: Module) -> _Here:
        return _Here(module, self.seen | {(id(node), name)})


class Resolver:
    """Resolves expressions of one program."""

    def __init__(self, program: Program, calls: Calls) -> None:
        self._program, self._calls, self._bindings = program, calls, Bindings(program)

    def texts(self, node: ast.expr, module: Module) -> Texts:
        """What an expression can be."""
        try:
            found = self._expression(node, _Here(module))
        except RecursionError:
            return Texts(gaps=(Gap(module, node, "the name of a recovery path is nested too deeply to be read"),))
        return Texts(tuple(dict.fromkeys(found.known)), tuple(dict.fromkeys(found.gaps)))

    def _expression(self, node: ast.expr, here: _Here) -> Texts:
        match node:
            case ast.Constant(value=str(text)):
                return Texts((Text(text, here.module.spot(node)),))
            case ast.Constant(value=None):
                return Texts()  # the default of `PATHS.get(x, None)`: no name, no path
            case ast.JoinedStr(values=values):
                return self._joined(node, [v.value if isinstance(v, ast.FormattedValue) else v for v in values], here)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return self._joined(node, [left, right], here)
            case ast.IfExp(body=body, orelse=orelse):
                return _sum([self._expression(body, here), self._expression(orelse, here)])
            case ast.BoolOp(op=op, values=values):
                parts = values if isinstance(op, ast.Or) else values[-1:]
                return _sum(self._expression(part, here) for part in parts)
            case ast.NamedExpr(value=value) | ast.Await(value=value):
                return self._expression(value, here)
            case ast.Name() | ast.Attribute():
                return self._named(node, here)
            case ast.Subscript(value=value, slice=key):
                return self._elements(value, here, key.value if isinstance(key, ast.Constant) else None)
            case ast.Call(func=ast.Attribute(value=table, attr="get"), args=[key, *default]):
                wanted = key.value if isinstance(key, ast.Constant) else None
                return _sum([self._elements(table, here, wanted), *(self._expression(d, here) for d in default)])
            case ast.Call(func=ast.Name(id="str"), args=[value]):
                return self._expression(value, here)
            case ast.Call():
                return self._answer(node.func, node, here)
        return _gap(node, here)

    def _joined(self, node: ast.expr, parts: list[ast.expr], here: _Here) -> Texts:
        found = [self._expression(part, here) for part in parts]
        count = 1
        for part in found:
            count *= len(part.known)
        if count > _MOST:
            return _gap(node, here, f"may be more than {_MOST} names")
        made = ("".join(each) for each in itertools.product(*([t.text for t in part.known] for part in found)))
        known = tuple(Text(text, here.module.spot(node)) for text in made)
        return Texts(known, tuple(gap for part in found for gap in part.gaps))

    # --- names and calls ---------------------------------------------------------------------------------------------

    def _named(self, node: ast.Name | ast.Attribute, here: _Here) -> Texts:
        function = _scope(node, here.module)
        key = (id(function or here.module), ast.dump(node))
        if key in here.seen:
            return Texts()  # `name = name or …`: its other values are looked at already
        bound = self._bindings.of(node, here.module)
        if bound is None:
            return _gap(node, here)
        found: list[Texts] = []
        for value, module, each in bound:
            inner = _Here(module, here.seen | {key})
            found.append(self._elements(value, inner, None, keys=True) if each else self._expression(value, inner))
        owner = self._parameter(node, here.module)
        if owner is not None and isinstance(node, ast.Name):
            found.append(self._handed(owner, node.id, here))
        home = _home(node, here.module)
        if isinstance(home, ast.Lambda) and isinstance(node, ast.Name) and node.id in parameters(home):
            found.append(_gap(node, here, "is handed to a `lambda`: which names it is given cannot be told"))
        for change in self._bindings.filled(node, here.module):
            own = isinstance(node, ast.Attribute) or _scope(change, here.module) is home
            if isinstance(change, ast.AugAssign) and own:
                found.append(_gap(change, here))
        return _sum(found)

    def _parameter(self, node: ast.expr, module: Module) -> Function | None:
        """The function whose parameter a name is."""
        for function in module.functions_around(node) if isinstance(node, ast.Name) else ():
            if isinstance(function, Function) and isinstance(node, ast.Name):
                if node.id in parameters(function):
                    return function
                if module.assigned(node.id, function):
                    return None
        return None

    def _handed(self, function: Function, name: str, here: _Here) -> Texts:
        """What callers give to a parameter."""
        if (id(function), name) in here.seen:
            return Texts()
        handed = self._calls.arguments(here.module, function, name)
        found = [self._expression(value, here.within(function, name, module)) for module, value in handed.given]
        found += [
            _gap(node, _Here(module), "hands it over in a way that tells nothing") for module, node in handed.unclear
        ]
        if not found:
            return _gap(function, here, f"is told it by `{name}`, which nobody in the sources gives")
        return _sum(found)

    def _answer(self, function: ast.expr, call: ast.Call, here: _Here) -> Texts:
        """What a call of that function returns; of one that was handed over (`path: Callable[[], str]`), any."""
        if isinstance(function, ast.Lambda):
            return self._expression(function.body, here)
        owner = self._parameter(function, here.module)
        if owner is not None and isinstance(function, ast.Name):
            handed = self._calls.arguments(here.module, owner, function.id)
            if (id(owner), function.id) in here.seen or handed.unclear or not handed.given:
                return _gap(call, here)
            within = [(value, here.within(owner, function.id, module)) for module, value in handed.given]
            return _sum(self._answer(value, call, there) for value, there in within)
        found = self._program.defined(function, here.module)
        if found is None or not isinstance(found[1], Function) or (id(found[1]), "return") in here.seen:
            return _gap(call, here)
        module, inner = found
        there = here.within(inner, "return", module)
        name = module.qualname(inner)  # which the file may define twice, as under `try` and `except`
        alike = [n for n in module.nodes if isinstance(n, Function) and module.qualname(n) == name]
        returned = [
            n.value for one in alike for n in ast.walk(one)
            if isinstance(n, ast.Return) and n.value is not None and next(module.functions_around(n), None) is one
        ]  # fmt: skip
        return _sum(self._expression(value, there) for value in returned) if returned else _gap(call, here)

    # --- tables ------------------------------------------------------------------------------------------------------

    def _elements(self, node: ast.expr, here: _Here, key: object, keys: bool = False) -> Texts:
        """Every value of a table (its keys, where it is walked through), or that of one key."""
        match node:
            case ast.Dict(keys=names, values=values):
                pairs = list(zip(names, values, strict=True))
                merged = [self._elements(value, here, key, keys) for name, value in pairs if name is None]
                if keys:
                    return _sum([*(self._expression(name, here) for name in names if name is not None), *merged])
                meant = [value for name, value in pairs if name is not None and _may_be(name, key)]
                return _sum([*(self._expression(value, here) for value in meant), *merged])
            case ast.Tuple(elts=items) | ast.List(elts=items) | ast.Set(elts=items):
                return _sum(
                    self._elements(item.value, here, None) if isinstance(item, ast.Starred)
                    else self._expression(item, here)
                    for item in items
                )  # fmt: skip
            case ast.BinOp(left=left, op=ast.BitOr() | ast.Add(), right=right):
                return _sum([self._elements(left, here, key, keys), self._elements(right, here, key, keys)])
            case ast.Call(func=ast.Attribute(value=table, attr="values"), args=[]):
                return self._elements(table, here, None)
            case ast.Call(func=ast.Name(id="dict"), args=tables, keywords=named):
                texts = [self._elements(table, here, key, keys) for table in tables]
                return _sum(texts + [self._expression(each.value, here) for each in named])
            case ast.Call(args=[table]) if last_word(node.func) in _COPIES:
                return self._elements(table, here, key, keys)
            case ast.Subscript(value=ast.Name() | ast.Attribute() as table):
                return self._nested(table, here, key, keys)
            case ast.Name() | ast.Attribute():
                return self._table(node, here, key, keys)
        return _gap(node, here)

    def _table(self, node: ast.Name | ast.Attribute, here: _Here, key: object, keys: bool) -> Texts:
        """A table by its name, with what is put into it later."""
        bound = self._bindings.of(node, here.module)
        if not bound or (id(node), "table") in here.seen:
            return _gap(node, here)
        found = [
            self._elements(value, here.within(node, "table", module), key, keys) for value, module, each in bound
            if not each
        ]  # fmt: skip
        added = [self._expression(value, here) for value in self._bindings.added(node, here.module)]
        later = [_gap(call, here) for call in self._bindings.filled(node, here.module)]
        return _sum(found + added + later) if found else _gap(node, here)

    def _nested(self, table: ast.Name | ast.Attribute, here: _Here, key: object, keys: bool) -> Texts:
        """A table in a table: any of them."""
        bound = self._bindings.of(table, here.module) or []
        dicts = [(b.value, b.module) for b in bound if isinstance(b.value, ast.Dict)]
        if not dicts or len(dicts) < len(bound):
            return _gap(table, here)
        inner = [(value, _Here(module, here.seen)) for outer, module in dicts for value in outer.values]
        return _sum(self._elements(value, there, key, keys) for value, there in inner)


def _scope(node: ast.AST, module: Module) -> ast.AST | None:
    return next(module.functions_around(node), None)


def _home(node: ast.expr, module: Module) -> ast.AST | None:
    """The function in which a name is given its values; None for the file, and for what is no bare name."""
    for function in module.functions_around(node) if isinstance(node, ast.Name) else ():
        if isinstance(node, ast.Name) and (
            node.id in parameters(function) or module.assigned(node.id, function) or module.walked(node.id, function)
        ):
            return function
    return None


def _sum(found: Iterable[Texts]) -> Texts:
    parts = list(found)
    return Texts(tuple(t for part in parts for t in part.known), tuple(g for part in parts for g in part.gaps))


def _gap(node: ast.AST, here: _Here, why: str = "is only known when the program runs") -> Texts:
    return Texts(gaps=(Gap(here.module, node, f"the name of a recovery path: `{_short(node)}` {why}"),))


def _may_be(name: ast.expr, key: object) -> bool:
    """Whether an entry can be the one of a constant key; a key that is no constant may be any."""
    return key is None or not isinstance(name, ast.Constant) or name.value == key


def _short(node: ast.AST) -> str:
    text = node.name if isinstance(node, Function) else " ".join(ast.unparse(node).split())
    return text if len(text) <= 60 else text[:59] + "…"
