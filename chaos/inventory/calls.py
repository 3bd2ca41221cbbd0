"""Who calls which function of a program, and what it hands over."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from chaos.inventory.receivers import Receivers
from chaos.inventory.source import Function, Module, Program, written


class Handed(NamedTuple):
    """What callers give to one parameter. `unclear`: calls that give it in a way (`*args`) that tells nothing."""

    given: list[tuple[Module, ast.expr]]
    unclear: list[tuple[Module, ast.AST]]


class Calls:
    """All calls of a program by the last word of what is called."""

    def __init__(self, program: Program) -> None:
        self._program, self._receivers = program, Receivers(program)
        self._by_word: dict[str, list[tuple[Module, ast.Call]]] = {}
        for module in program.modules:
            for node in module.nodes:
                if isinstance(node, ast.Call) and (word := last_word(node.func)):
                    self._by_word.setdefault(word, []).append((module, node))

    def of(self, module: Module, function: Function) -> Iterator[tuple[Module, ast.Call]]:
        """The calls that can be meant for a function.

        Of a method: what is called by its name, on an object whose class the sources do not tell or tell to be its own.
        """
        owner = module.owner(function)
        made = function.name == "__init__" and owner is not None
        word = owner.name if made and owner is not None else function.name
        for asker, call in self._by_word.get(word, ()):
            if owner is not None and not made:
                if self._may_mean(asker, call, module, owner, function.name):
                    yield asker, call
            elif self._names(asker, call, module, owner if made else function):
                yield asker, call

    def arguments(self, module: Module, function: Function, name: str) -> Handed:
        """What all of them give to the parameter `name`; its default counts where one leaves it out."""
        handed = Handed([], [])
        positional, default = _parameter(function, name)
        bound = module.owner(function) is not None and not _static(function)
        for asker, call in self.of(module, function):
            value = next((each.value for each in call.keywords if each.arg == name), None)
            place = None if positional is None else positional - bound
            if value is None and place is not None and 0 <= place < len(call.args):
                value = call.args[place]
            starred = any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords)
            if isinstance(value, ast.Starred) or (value is None and starred):
                handed.unclear.append((asker, call))
            elif value is not None:
                handed.given.append((asker, value))
            elif default is not None:
                handed.given.append((module, default))
        return handed

    def _names(self, asker: Module, call: ast.Call, module: Module, meant: ast.AST | None) -> bool:
        if (found := self._program.defined(call.func, asker)) is not None:
            return found == (module, meant)
        # A function within a function: known by its bare name to those around it.
        return asker is module and isinstance(call.func, ast.Name) and _visible(module, meant, call)

    def _may_mean(self, asker: Module, call: ast.Call, module: Module, owner: ast.ClassDef, name: str) -> bool:
        if not isinstance(call.func, ast.Attribute):
            return False
        receiver = call.func.value
        if isinstance(receiver, ast.Name) and receiver.id in ("self", "cls"):
            own = asker.class_around(call)
            has = own is not None and any(isinstance(n, Function) and n.name == name for n in own.body)
            return own is owner if has else own is None or bool(own.bases)
        dotted = written(receiver)
        if dotted is not None and dotted.partition(".")[0] in asker.imports:
            return self._program.defined(receiver, asker) == (module, owner)
        told = self._receivers.classes(receiver, asker)
        return not told or any(self._receivers.related((module, owner), each) for each in told)


def last_word(node: ast.AST) -> str:
    """`commit` of `self._store.commit`."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _visible(module: Module, meant: ast.AST | None, call: ast.Call) -> bool:
    if meant is None or not isinstance(meant, Function) or not isinstance(call.func, ast.Name):
        return False
    around = next(module.functions_around(meant), None)
    return call.func.id == meant.name and around is not None and around in module.functions_around(call)


def _parameter(function: Function, name: str) -> tuple[int | None, ast.expr | None]:
    """Which positional one it is (None: by keyword only), and its default."""
    given = function.args
    ordered = [*given.posonlyargs, *given.args]
    for place, argument in enumerate(ordered):
        if argument.arg == name:
            from_end = place - (len(ordered) - len(given.defaults))
            return place, given.defaults[from_end] if from_end >= 0 else None
    for argument, default in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        if argument.arg == name:
            return None, default
    return None, None


def _static(function: Function) -> bool:
    return any(last_word(decorator) == "staticmethod" for decorator in function.decorator_list)
