"""Where a program that was not changed has a recovery path: `code:` of an entry, as lines of a file."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Collection
from pathlib import Path as File
from typing import NamedTuple

from chaos.inventory.calls import last_word
from chaos.inventory.source import Function, Module
from chaos.paths import Listed, Region
from chaos.units import counted


class Unfound(Exception):
    """What is named is not there; says why."""


class Sources(NamedTuple):
    """The files that entries may name: below `base`, among `files`."""

    base: File
    files: Collection[File]
    shown: Callable[[File], str]

    def region(self, entry: Listed) -> Region:
        """The lines that an entry's `code` means; Unfound where there are none."""
        name, _, what = entry.code.rpartition(":")
        path = (self.base / name).resolve()
        if path not in self.files:
            there = path.is_file()
            raise Unfound(f"{name} is none of the target's `sources`" if there else f"there is no {name}")
        try:
            data = path.read_bytes()
        except OSError as error:
            raise Unfound(f"{name}: {error.strerror}") from error
        if what[0].isdigit():
            return self._lines(path, name, what, data)
        return self._function(path, name, what, data)

    def _lines(self, path: File, name: str, what: str, data: bytes) -> Region:
        first, _, last = what.partition("-")
        begin, end, there = int(first), int(last or first), len(data.splitlines())
        if end < begin or end > there:
            raise Unfound(f"{name} has {counted(there, 'line')}, and no lines {what}")
        return Region(file=self.shown(path), first=begin, last=end)

    def _function(self, path: File, name: str, what: str, data: bytes) -> Region:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SyntaxWarning)
                module = Module(path, name, ast.parse(data), data.decode(errors="replace"))
        except (SyntaxError, ValueError, RecursionError) as error:
            raise Unfound(f"{name} cannot be read: {error}") from error
        functions = [node for node in module.nodes if isinstance(node, Function)]
        found = [node for node in functions if module.qualname(node) == what and not _beside(node)]
        if not found:
            known = [module.qualname(node) for node in functions]
            near = [each for each in known if each.rpartition(".")[2] == what.rpartition(".")[2]]
            raise Unfound(f"{name} has no function {what}" + (f"; there is {near[0]}" if near else ""))
        if len(found) > 1:  # which of them runs is only known when the program does
            lines = f"{found[-1].lineno}-{found[-1].end_lineno}"
            raise Unfound(
                f"{name} has {counted(len(found), 'function')} {what}: name the lines of one, such as {lines}"
            )
        return _body(found[0], self.shown(path))


def _beside(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether it only tells of another one of its name: a signature, or what a property does when it is set."""
    return any(last_word(each) in ("overload", "setter", "deleter") for each in function.decorator_list)


def _body(function: ast.FunctionDef | ast.AsyncFunctionDef, shown: str) -> Region:
    """Its body: the line of its `def` runs whenever the file is imported, and its docstring never."""
    body = function.body
    documented = isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant) and len(body) > 1
    last = function.end_lineno or function.lineno
    return Region(file=shown, first=body[1 if documented else 0].lineno, last=last, head=function.lineno)
