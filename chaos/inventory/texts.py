"""Which texts an expression can be, told from the sources alone: constants, tables, and what callers hand over."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from chaos.inventory.calls import Calls, last_word
from chaos.inventory.source import Function, Module, Program
from chaos.paths import Spot

_MOST = 200  # texts that one expression may be: more is no list of names


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

    def __add__(self, other: object) -> Texts:
        assert isinstance(other, Texts)
        return Texts((*self.known, *other.known), (*self.gaps, *other.gaps))


class _Here(NamedTuple):
    module: Module
    seen: frozenset[tuple[int, str]] = frozenset()


class Resolver:
    """Resolves expressions of one program."""

    def __init__(self, program: Program, calls: Calls) -> None:
        self._program, self._calls = program, calls

    def texts(self, node: ast.expr, module: Module) -> Texts:
        """What a name that is given there can be."""
        found = self._expression(node, _Here(module))
        return Texts(tuple(dict.fromkeys(found.known)), tuple(dict.fromkeys(found.gaps)))

    def _expression(self, node: ast.expr, here: _Here) -> Texts:
        module = here.module
        match node:
            case ast.Constant(value=str(text)):
                return Texts((Text(text, module.spot(node)),))
            case ast.Constant(value=None):
                return Texts()  # `x and PATHS[x]`, `PATHS.get(x)`: no name, no path
            case ast.JoinedStr(values=values):
                return self._joined(node, [v.value if isinstance(v, ast.FormattedValue) else v for v in values], here)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return self._joined(node, [left, right], here)
            case ast.IfExp(body=body, orelse=orelse):
                return self._expression(body, here) + self._expression(orelse, here)
            case ast.BoolOp(op=op, values=values):
                parts = values if isinstance(op, ast.Or) else values[-1:]
                return _sum(self._expression(part, here) for part in parts)
            case ast.NamedExpr(value=value) | ast.Await(value=value):
                return self._expression(value, here)
            case ast.Name() | ast.Attribute():
                return self._named(node, here)
            case ast.Subscript(value=value, slice=key):
                return self._elements(value, here, key.value if isinstance(key, ast.Constant) else None)
            case ast.Call():
                return self._call(node, here)
        return self._gap(node, here)

    def _gap(self, node: ast.AST, here: _Here, why: str = "what it is is only known when it runs") -> Texts:
        return Texts(gaps=(Gap(here.module, node, f"`{_short(node)}`: {why}"),))

    def _joined(self, node: ast.expr, parts: list[ast.expr], here: _Here) -> Texts:
        found = [self._expression(part, here) for part in parts]
        gaps = tuple(gap for part in found for gap in part.gaps)
        count = 1
        for part in found:
            count *= len(part.known)
        if count > _MOST:
            return self._gap(node, here, f"more than {_MOST} names")
        spot = here.module.spot(node)
        made = ("".join(each) for each in itertools.product(*([t.text for t in part.known] for part in found)))
        return Texts(tuple(Text(text, spot) for text in made), gaps)

    # --- names -------------------------------------------------------------------------------------------------------

    def _named(self, node: ast.Name | ast.Attribute, here: _Here) -> Texts:
        found = self._values(node, here)
        if found is not None:
            return _sum(found)
        return self._gap(node, here)

    def _values(self, node: ast.Name | ast.Attribute, here: _Here) -> list[Texts] | None:
        """What each assignment of a name can be; None where there is none to be found."""
        bound = self._bound(node, here)
        if bound is None:
            return None
        found: list[Texts] = []
        for expression, there in bound:
            found.append(self._elements_of(expression, there) if there.each else self._expression(expression, there.at))
        if isinstance(node, ast.Name) and (handed := self._handed(node, here)) is not None:
            found.append(handed)
        return found

    def _bound(self, node: ast.Name | ast.Attribute, here: _Here) -> list[tuple[ast.expr, _There]] | None:
        key = (id(here.module), ast.dump(node) + str(id(next(here.module.functions_around(node), None))))
        if key in here.seen:
            return []
        here = here._replace(seen=here.seen | {key})
        if isinstance(node, ast.Attribute):
            return self._attribute(node, here)
        module, found = here.module, list[tuple[ast.expr, _There]]()
        for function in (*module.functions_around(node), None):
            found += [(value, _There(here)) for value in module.assigned(node.id, function)]
            found += [(value, _There(here, each=True)) for value in _walked(module, node.id, function)]
            parameter = function is not None and node.id in _parameters(function)
            if found or parameter:
                return found
        return self._imported(node.id, here)

    def _imported(self, name: str, here: _Here) -> list[tuple[ast.expr, _There]] | None:
        if name not in here.module.imports:
            return None
        return self._elsewhere(here.module.imports[name], here)

    def _elsewhere(self, dotted: str, here: _Here) -> list[tuple[ast.expr, _There]] | None:
        """A constant of another file, or of a class in it."""
        found = self._program.locate(self._program.canonical(dotted, here.module), here.module)
        if found is None:
            return None
        module, name = found
        there = _There(_Here(module, here.seen))
        owner, _, last = name.rpartition(".")
        cls = self._program.defined(ast.parse(owner, mode="eval").body, module) if owner else None
        if owner and cls is None:
            return None
        values = module.assigned(last, None)
        if cls is None:
            return [(value, there) for value in values] or None
        inside = [value for value in values if cls[0].class_around(value) is cls[1]]
        return [(value, _There(_Here(cls[0], here.seen))) for value in inside] or None

    def _attribute(self, node: ast.Attribute, here: _Here) -> list[tuple[ast.expr, _There]] | None:
        module, there = here.module, _There(here)
        owner = node.value
        if node.attr in ("value", "name") and isinstance(owner, ast.Attribute):  # of an enumeration
            return self._attribute(owner, here)
        if isinstance(owner, ast.Name) and owner.id in ("self", "cls"):
            cls = module.class_around(node)
            return None if cls is None else [(v, there) for v in _kept(module, cls, node.attr)] or None
        found = self._program.defined(owner, module)
        if found is not None and isinstance(found[1], ast.ClassDef):
            kept = _kept(found[0], found[1], node.attr)
            return [(value, _There(_Here(found[0], here.seen))) for value in kept] or None
        if isinstance(owner, ast.Name) and owner.id in module.imports:
            return self._elsewhere(f"{module.imports[owner.id]}.{node.attr}", here)
        return None

    def _handed(self, node: ast.Name, here: _Here) -> Texts | None:
        """What callers give to a parameter; None where the name is none."""
        for function in here.module.functions_around(node):
            if isinstance(function, Function) and node.id in _parameters(function):
                return self._arguments(function, node.id, here)
            if here.module.assigned(node.id, function):
                return None
        return None

    def _arguments(self, function: Function, name: str, here: _Here) -> Texts:
        key = (id(function), name)
        if key in here.seen:
            return Texts()
        seen = here.seen | {key}
        handed = self._calls.arguments(here.module, function, name)
        found = [self._expression(value, _Here(module, seen)) for module, value in handed.given]
        found += [
            self._gap(node, _Here(module), "what it hands over cannot be told") for module, node in handed.unclear
        ]
        if not handed.given and not handed.unclear:
            return self._gap(function, here, f"nobody in the sources says what `{name}` is")
        return _sum(found)

    # --- tables ------------------------------------------------------------------------------------------------------

    def _elements_of(self, node: ast.expr, there: _There) -> Texts:
        return self._elements(node, there.at, None, keys=True)

    def _elements(self, node: ast.expr, here: _Here, key: object, keys: bool = False) -> Texts:
        """Every value of a table (its keys, where it is walked through), or that of one key."""
        match node:
            case ast.Dict(keys=names, values=values):
                pairs = list(zip(names, values, strict=True))
                merged = [value for name, value in pairs if name is None]
                if keys:
                    items = [name for name in names if name is not None]
                else:
                    items = [v for n, v in pairs if n is not None and _may_be(n, key)]
                return _sum([self._expression(item, here) for item in items]
                            + [self._elements(table, here, key, keys) for table in merged])  # fmt: skip
            case ast.Tuple(elts=items) | ast.List(elts=items) | ast.Set(elts=items):
                return _sum(
                    self._elements(item.value, here, None) if isinstance(item, ast.Starred)
                    else self._expression(item, here)
                    for item in items
                )  # fmt: skip
            case ast.BinOp(left=left, op=ast.BitOr() | ast.Add(), right=right):
                return self._elements(left, here, key, keys) + self._elements(right, here, key, keys)
            case ast.Call(func=ast.Attribute(value=table, attr="values"), args=[]):
                return self._elements(table, here, None)
            case ast.Call(func=ast.Name(id="dict"), args=tables, keywords=named):
                texts = [self._elements(table, here, key, keys) for table in tables]
                return _sum(texts + [self._expression(each.value, here) for each in named])
            case ast.Call(args=[table]) if last_word(node.func) in (
                "MappingProxyType",
                "frozenset",
                "tuple",
                "set",
                "list",
            ):
                return self._elements(table, here, key, keys)
            case ast.Subscript(value=table):  # a table of tables
                return self._nested(table, here, key, keys)
            case ast.Name() | ast.Attribute():
                bound = self._bound(node, here)
                if bound:
                    added = [self._expression(value, here) for value in _added(here.module, node)]
                    return _sum([self._elements(value, there.at, key, keys) for value, there in bound] + added)
        return self._gap(node, here)

    def _nested(self, table: ast.expr, here: _Here, key: object, keys: bool) -> Texts:
        if isinstance(table, ast.Name | ast.Attribute) and (bound := self._bound(table, here)):
            dicts = [(v, there) for v, there in bound if isinstance(v, ast.Dict)]
            if len(dicts) == len(bound):
                inner = [(value, there) for d, there in dicts for value in d.values]
                return _sum(self._elements(value, there.at, key, keys) for value, there in inner)
        return self._gap(table, here)

    def _call(self, node: ast.Call, here: _Here) -> Texts:
        match node:
            case ast.Call(func=ast.Attribute(value=table, attr="get"), args=[key, *default]):
                wanted = key.value if isinstance(key, ast.Constant) else None
                return _sum([self._elements(table, here, wanted), *(self._expression(d, here) for d in default)])
            case ast.Call(func=ast.Name(id="str"), args=[value]):
                return self._expression(value, here)
        return self._answer(node.func, node, here)

    def _answer(self, function: ast.expr, call: ast.Call, here: _Here) -> Texts:
        """What a call of that function returns; of one that was handed over (`path: Callable[[], str]`), any."""
        if isinstance(function, ast.Lambda):
            return self._expression(function.body, here)
        if (owner := self._parameter_of(function, here.module)) is not None and isinstance(function, ast.Name):
            key = (id(owner), function.id)
            handed = self._calls.arguments(here.module, owner, function.id)
            if key in here.seen or handed.unclear or not handed.given:
                return Texts() if key in here.seen else self._gap(call, here)
            seen = here.seen | {key}
            return _sum(self._answer(value, call, _Here(module, seen)) for module, value in handed.given)
        found = self._program.defined(function, here.module)
        if found is None or not isinstance(found[1], Function) or (id(found[1]), "return") in here.seen:
            return self._gap(call, here)
        module, inner = found
        there = _Here(module, here.seen | {(id(inner), "return")})
        returned = [
            n.value for n in ast.walk(inner)
            if isinstance(n, ast.Return) and n.value is not None and next(module.functions_around(n), None) is inner
        ]  # fmt: skip
        return _sum(self._expression(value, there) for value in returned) if returned else self._gap(call, here)

    def _parameter_of(self, node: ast.expr, module: Module) -> Function | None:
        """The function whose parameter a name is."""
        if not isinstance(node, ast.Name):
            return None
        around = (f for f in module.functions_around(node) if isinstance(f, Function))
        return next((function for function in around if node.id in _parameters(function)), None)


class _There(NamedTuple):
    """Where a value stands; `each`: it is a table, and the name one of its elements."""

    at: _Here
    each: bool = False


def _sum(found: Iterable[Texts]) -> Texts:
    total = Texts()
    for texts in found:
        total += texts
    return total


def _may_be(name: ast.expr, key: object) -> bool:
    """Whether an entry can be the one of a constant key; a key that is no constant may be any."""
    return key is None or not isinstance(name, ast.Constant) or name.value == key


def _walked(module: Module, name: str, function: ast.AST | None) -> Iterator[ast.expr]:
    """The tables whose elements a loop or comprehension gives to a name."""
    for node in module.nodes:
        if isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
            named = isinstance(node.target, ast.Name) and node.target.id == name
            if named and next(module.functions_around(node), None) is function:
                yield node.iter


def _parameters(function: ast.AST) -> list[str]:
    if not isinstance(function, Function | ast.Lambda):
        return []
    given = function.args
    return [argument.arg for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs)]


def _kept(module: Module, cls: ast.ClassDef, name: str) -> Iterator[ast.expr]:
    """What a class says of an attribute: in its body, and by `self.NAME = …`."""
    for node in ast.walk(cls):
        targets: list[ast.expr] = []
        match node:
            case ast.Assign(targets=given, value=value):
                targets = given
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                targets = [target]
        for each in targets:
            match each:
                case ast.Name(id=id) if id == name and not any(module.functions_around(node)):
                    yield value
                case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=attr) if attr == name:
                    yield value


def _added(module: Module, table: ast.expr) -> Iterator[ast.expr]:
    """What `TABLE[key] = …` puts into it later."""
    asked = ast.dump(table)
    for node in module.nodes:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Subscript) and ast.dump(target.value) == asked:
                    yield node.value


def _short(node: ast.AST) -> str:
    text = node.name if isinstance(node, Function) else " ".join(ast.unparse(node).split())
    return text if len(text) <= 60 else text[:59] + "…"
