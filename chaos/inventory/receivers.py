"""Of which class of the program an object is, where the sources say so: by an annotation or a constructor."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import suppress

from chaos.inventory.bindings import Bindings
from chaos.inventory.source import Function, Module, Program

_DEPTH = 4  # names that are followed for one object
Class = tuple[Module, ast.ClassDef]


class Receivers:
    """Looks objects of one program up."""

    def __init__(self, program: Program) -> None:
        self._program, self._bindings = program, Bindings(program)

    def classes(self, node: ast.expr, module: Module, depth: int = _DEPTH) -> list[Class]:
        """The classes that an expression may be of; none where nobody says."""
        if depth == 0:
            return []
        if isinstance(node, ast.Call):
            found = self._class(node.func, module)
            return [found] if found is not None else []
        if not isinstance(node, ast.Name | ast.Attribute):
            return []
        said = [found for annotation in _annotations(node, module) for found in self._named(annotation, module)]
        for bound in self._bindings.of(node, module) or ():
            if not bound.each:
                said += self.classes(bound.value, bound.module, depth - 1)
        return said

    def related(self, one: Class, other: Class) -> bool:
        """Whether they are the same, or one is built on the other."""
        return self._built_on(one, other, _DEPTH) or self._built_on(other, one, _DEPTH)

    def _built_on(self, one: Class, other: Class, depth: int) -> bool:
        if one[1] is other[1]:
            return True
        bases = [self._class(base, one[0]) for base in one[1].bases] if depth else []
        return any(base is not None and self._built_on(base, other, depth - 1) for base in bases)

    def _named(self, annotation: ast.expr, module: Module) -> Iterator[Class]:
        """The classes in an annotation: `Facts | None`, `"Facts"`, `Mapping[str, Facts]`."""
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
            with suppress(SyntaxError):
                yield from self._named(ast.parse(annotation.value, mode="eval").body, module)
            return
        for node in ast.walk(annotation):
            if isinstance(node, ast.Name | ast.Attribute) and (found := self._class(node, module)) is not None:
                yield found

    def _class(self, node: ast.expr, module: Module) -> Class | None:
        found = self._program.defined(node, module)
        return (found[0], found[1]) if found is not None and isinstance(found[1], ast.ClassDef) else None


def _annotations(node: ast.Name | ast.Attribute, module: Module) -> Iterator[ast.expr]:
    """What is written behind a parameter or a variable."""
    if isinstance(node, ast.Name):
        for function in module.functions_around(node):
            if isinstance(function, Function):
                given = function.args
                for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs):
                    if argument.arg == node.id and argument.annotation is not None:
                        yield argument.annotation
                        return
    scope: ast.AST | None = module.tree
    if isinstance(node, ast.Attribute):
        if not (isinstance(node.value, ast.Name) and node.value.id == "self"):
            return
        scope = module.class_around(node)
    for each in ast.walk(scope) if scope is not None else ():
        match each:
            case ast.AnnAssign(target=ast.Name(id=name) | ast.Attribute(attr=name), annotation=annotation):
                if name == (node.id if isinstance(node, ast.Name) else node.attr):
                    yield annotation
