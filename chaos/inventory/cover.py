"""Whether a handler is in a declared path, or leads into one."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from chaos.inventory.calls import last_word
from chaos.inventory.concerns import own
from chaos.inventory.declared import Declared, around
from chaos.inventory.flow import goes_on, loop_around, within
from chaos.inventory.source import Function, Module, Program
from chaos.paths import Region

_DEPTH = 3  # functions of the target that a call is followed into
_FEW = 3  # methods of one name: more, and the name says nothing


class Cover:
    """The declared paths of one program, as stretches of code and as functions that lead into them."""

    def __init__(self, program: Program, found: Declared, regions: Iterable[Region] = ()) -> None:
        self._program, self._regions = program, tuple(regions)
        self._entries = {id(entry.call) for entry in found.entries}
        self._stretches = {id(node) for entry in found.entries for node in around(entry)}
        self._leads: dict[tuple[int, int], bool] = {}
        self._methods: dict[str, list[tuple[Module, Function]]] = {}
        for module in program.modules:
            for node in module.nodes:
                if isinstance(node, Function) and module.owner(node) is not None:
                    self._methods.setdefault(node.name, []).append((module, node))

    def covers(self, place: ast.AST, body: list[ast.stmt], module: Module) -> bool:
        """Whether `body`, which runs after a failure and stands in `place`, is under a path, enters one itself, calls a
        function that does, or goes on to one further down in its function.
        """
        if any(id(above) in self._stretches for above in module.above(place)):
            return True
        if self._listed(module, place) or any(self._listed(module, each) for each in body):
            return True
        return self._enters(body, module, _DEPTH) or (goes_on(body) and self._after(place, module))

    def _enters(self, body: list[ast.stmt], module: Module, depth: int) -> bool:
        calls = [node for node in within(body) if isinstance(node, ast.Call)]
        if any(id(call) in self._entries for call in calls):
            return True
        return depth > 0 and any(self._call_enters(call, module, depth) for call in calls)

    def _call_enters(self, call: ast.Call, module: Module, depth: int) -> bool:
        for inner, function in self._meant(call, module):
            key = (id(function), depth)
            if key not in self._leads:
                self._leads[key] = False  # a function that calls itself
                decorated = id(function) in self._stretches and any(
                    id(each) in self._entries for each in function.decorator_list
                )
                decorated = decorated or self._listed(inner, function.body[-1])
                self._leads[key] = decorated or self._enters(function.body, inner, depth - 1)
            if self._leads[key]:
                return True
        return False

    def _meant(self, call: ast.Call, module: Module) -> list[tuple[Module, Function]]:
        if (found := own(self._program, call, module)) is not None:
            return [found]
        if not isinstance(call.func, ast.Attribute):
            return []
        methods = self._methods.get(last_word(call.func), [])
        return methods if len(methods) <= _FEW else []

    def _listed(self, module: Module, node: ast.AST) -> bool:
        """Whether the target file calls the line of a node a path of a program that was not changed."""
        line = getattr(node, "lineno", 0)
        return any(region.file == module.shown and region.first <= line <= region.last for region in self._regions)

    def _after(self, place: ast.AST, module: Module) -> bool:
        """Whether the function enters a path further down, or in the next turn of a loop."""
        function = next(module.functions_around(place), None)
        if not isinstance(function, Function):
            return False
        line, loop = getattr(place, "lineno", 0), loop_around(place, module)
        if loop is not None and any(id(node) in self._entries for node in within(loop.body)):
            return True
        return any(id(n) in self._entries and getattr(n, "lineno", 0) > line for n in within(function.body))
