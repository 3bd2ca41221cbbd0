"""What a name stands for: the expressions that the sources give to it."""

from __future__ import annotations

import ast
from typing import NamedTuple

from chaos.inventory.source import Function, Module, Program, written

_FILL = frozenset({"append", "appendleft", "add", "extend", "insert", "update", "setdefault"})


class Bound(NamedTuple):
    """An expression that a name can be; `each`: it is a table, and the name one of those that it is walked by."""

    value: ast.expr
    module: Module
    each: bool = False


class Bindings:
    """Looks names up, in their function, their file, their class, and where they were imported from."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._bases: dict[tuple[Module, ast.ClassDef], list[tuple[Module, ast.AST]]] | None = None

    def of(self, node: ast.Name | ast.Attribute, module: Module) -> list[Bound] | None:
        """All of them; none for a parameter, None for what is no name of the sources."""
        if isinstance(node, ast.Attribute):
            return self._attribute(node, module)
        for function in (*module.functions_around(node), None):
            found = [Bound(value, module) for value in module.assigned(node.id, function)]
            found += [Bound(value, module, each=True) for value in module.walked(node.id, function)]
            if found or node.id in parameters(function):
                return found
        return self._elsewhere(module.imports[node.id], module) if node.id in module.imports else None

    def added(self, table: ast.Name | ast.Attribute, module: Module) -> list[ast.expr]:
        """What `TABLE[key] = …` puts into it later, in the same file."""
        asked = ast.dump(table)
        return [
            node.value
            for node in module.nodes
            if isinstance(node, ast.Assign)
            and any(isinstance(target, ast.Subscript) and ast.dump(target.value) == asked for target in node.targets)
        ]

    def filled(self, table: ast.Name | ast.Attribute, module: Module) -> list[ast.AST]:
        """Where a table is filled otherwise: `names.append(…)`, `TABLE.update(…)`, `names += …`."""
        asked = ast.dump(table)
        found: list[ast.AST] = []
        for node in module.nodes:
            match node:
                case ast.Call(func=ast.Attribute(value=owner, attr=attr)) if attr in _FILL and ast.dump(owner) == asked:
                    found.append(node)
                case ast.AugAssign(target=ast.Name() | ast.Attribute() as target):
                    if written(target) == written(table):
                        found.append(node)
        return found

    def _attribute(self, node: ast.Attribute, module: Module) -> list[Bound] | None:
        owner = node.value
        if node.attr in ("value", "name") and isinstance(owner, ast.Attribute):  # of an enumeration
            return self._attribute(owner, module)
        if isinstance(owner, ast.Name) and owner.id in ("self", "cls"):
            cls = module.class_around(node)
            return self._inherited(module, cls, node.attr) if cls is not None else None
        found = self._program.defined(owner, module)
        if found is not None and isinstance(found[1], ast.ClassDef):
            return _kept(found[0], found[1], node.attr)
        if isinstance(owner, ast.Name) and owner.id in module.imports:
            return self._elsewhere(f"{module.imports[owner.id]}.{node.attr}", module)
        return None

    def _inherited(self, module: Module, cls: ast.ClassDef, name: str) -> list[Bound] | None:
        """What `self.NAME` can be in a method of a class: an object may be of any class that is built on it."""
        found: list[Bound] = []
        for home, each in self._family(module, cls):
            found += _kept(home, each, name) or ()
        return found or None

    def _family(self, module: Module, cls: ast.ClassDef) -> list[tuple[Module, ast.ClassDef]]:
        """A class, what it is built on, and what is built on it."""
        if self._bases is None:
            classes = [(m, n) for m in self._program.modules for n in m.nodes if isinstance(n, ast.ClassDef)]
            self._bases = {
                (home, one): [found for base in one.bases if (found := self._program.defined(base, home)) is not None]
                for home, one in classes
            }
        up, down = [(module, cls)], [(module, cls)]
        for one in up:
            up += [(m, n) for m, n in self._bases.get(one, ()) if isinstance(n, ast.ClassDef) and (m, n) not in up]
        for one in down:
            down += [heir for heir, bases in self._bases.items() if one in bases and heir not in down]
        return [*up, *down[1:]]

    def _elsewhere(self, dotted: str, module: Module) -> list[Bound] | None:
        """A constant of another file."""
        found = self._program.locate(self._program.canonical(dotted, module), module)
        if found is None or "." in found[1]:
            return None
        return [Bound(value, found[0]) for value in found[0].assigned(found[1], None)] or None


def parameters(function: ast.AST | None) -> list[str]:
    """The names of a function's parameters, without `*args` and `**kwargs`."""
    if not isinstance(function, Function | ast.Lambda):
        return []
    given = function.args
    return [argument.arg for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs)]


def _kept(module: Module, cls: ast.ClassDef, name: str) -> list[Bound] | None:
    """What a class says of an attribute: in its body, and by `self.NAME = …`."""
    found: list[Bound] = []
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
                    found.append(Bound(value, module))
                case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=attr) if attr == name:
                    found.append(Bound(value, module))
    return found or None
