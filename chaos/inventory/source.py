"""The Python sources of a target as trees, and what a dotted name in one of them means in another."""

from __future__ import annotations

import ast
import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from chaos.paths import Spot

Function = ast.FunctionDef | ast.AsyncFunctionDef
_LINES = re.compile(r"\r\n|\r|\n")  # as Python counts them: a form feed ends none
_TESTS = frozenset({"tests", "test"})


class Module:
    """One file. Imports count wherever they stand in it: a function that imports for itself is no other program."""

    def __init__(self, path: Path, shown: str, tree: ast.Module, text: str) -> None:
        self.path, self.shown, self.tree = path, shown, tree
        self.lines = _LINES.split(text)
        self.package = path.parent.parts
        self.nodes: list[ast.AST] = [tree]  # grows while it is walked through
        self._parents: dict[ast.AST, ast.AST] = {}
        for node in self.nodes:
            for below in ast.iter_child_nodes(node):
                self._parents[below] = node
                self.nodes.append(below)
        self.imports = dict(self._imports())
        shared = set(self._globals())
        self._assigned: dict[tuple[str, ast.AST | None], list[ast.expr]] = {}
        for name, node, value in self._assignments():
            around = next(self.functions_around(node), None)
            around = None if (name, around) in shared else around
            self._assigned.setdefault((name, around), []).append(value)
        self._walked: dict[tuple[str, ast.AST | None], list[ast.expr]] = {}
        for loop in self.nodes:
            if isinstance(loop, ast.For | ast.AsyncFor | ast.comprehension) and isinstance(loop.target, ast.Name):
                around = next(self.functions_around(loop), None)
                self._walked.setdefault((loop.target.id, around), []).append(loop.iter)
        self._defined: dict[ast.AST, dict[str, ast.stmt]] = {}
        self.stars = tuple(
            self._from(node) for node in self.nodes if isinstance(node, ast.ImportFrom) and node.names[0].name == "*"
        )

    def __repr__(self) -> str:
        return self.shown

    def spot(self, node: ast.AST) -> Spot:
        """Where a node stands."""
        return Spot(self.shown, getattr(node, "lineno", 1))

    def above(self, node: ast.AST) -> Iterator[ast.AST]:
        """All nodes around it, the nearest first."""
        while (found := self._parents.get(node)) is not None:
            yield found
            node = found

    def functions_around(self, node: ast.AST) -> Iterator[Function | ast.Lambda]:
        """The functions it stands in, the innermost first."""
        return (above for above in self.above(node) if isinstance(above, Function | ast.Lambda))

    def class_around(self, node: ast.AST) -> ast.ClassDef | None:
        """The class it stands in, also deep in a method."""
        return next((above for above in self.above(node) if isinstance(above, ast.ClassDef)), None)

    def owner(self, function: ast.AST) -> ast.ClassDef | None:
        """The class that a function is a method of."""
        above = self._parents.get(function)
        return above if isinstance(above, ast.ClassDef) else None

    def qualname(self, node: ast.AST) -> str:
        """`Vault.settle` for a node inside of that method; empty at the top."""
        around = [node, *self.above(node)]
        return ".".join(n.name for n in reversed(around) if isinstance(n, Function | ast.ClassDef))

    def assigned(self, name: str, function: ast.AST | None) -> list[ast.expr]:
        """What plain assignments give to a name, in a function or (None) at the top of the file or a class in it."""
        return self._assigned.get((name, function), [])

    def walked(self, name: str, function: ast.AST | None) -> list[ast.expr]:
        """The tables that loops and comprehensions of a function, or (None) of the file, take a name from."""
        return self._walked.get((name, function), [])

    def defined(self, holder: ast.Module | ast.ClassDef) -> dict[str, ast.stmt]:
        """The functions and classes that the file or a class defines, the first of each name."""
        if holder not in self._defined:
            found = [node for node in _flat(holder.body) if isinstance(node, Function | ast.ClassDef)]
            self._defined[holder] = {node.name: node for node in reversed(found)}
        return self._defined[holder]

    def _globals(self) -> Iterator[tuple[str, ast.AST | None]]:
        for node in self.nodes:
            if isinstance(node, ast.Global):
                yield from ((name, next(self.functions_around(node), None)) for name in node.names)

    def _assignments(self) -> Iterator[tuple[str, ast.AST, ast.expr]]:
        for node in self.nodes:
            match node:
                case ast.Assign(targets=targets, value=value):
                    yield from ((target.id, node, value) for target in targets if isinstance(target, ast.Name))
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                    yield name, node, value
                case ast.NamedExpr(target=ast.Name(id=name), value=value):
                    yield name, node, value

    def _imports(self) -> Iterator[tuple[str, str]]:
        for node in self.nodes:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    first = alias.name.partition(".")[0]
                    yield (alias.asname, alias.name) if alias.asname else (first, first)
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    yield alias.asname or alias.name, f"{self._from(node)}.{alias.name}"

    def _from(self, node: ast.ImportFrom) -> str:
        """The module that is imported from; relative ones become the dotted path of the folder."""
        if not node.level:
            return node.module or ""
        folder = self.package[1 : len(self.package) - node.level + 1]
        return ".".join((*folder, node.module) if node.module else folder)


class Program:
    """All Python sources. `problems`: files that could not be read, with their place."""

    def __init__(self, modules: Iterable[Module], problems: Iterable[str] = ()) -> None:
        self.modules, self.problems = tuple(modules), tuple(problems)
        self._by_tail: dict[tuple[str, ...], list[Module]] = {}
        for module in self.modules:
            parts = (*module.package[1:], module.path.stem)
            parts = parts[:-1] if parts[-1] == "__init__" else parts
            for start in range(len(parts)):
                self._by_tail.setdefault(parts[start:], []).append(module)

    def module(self, dotted: str, asked: Module) -> Module | None:
        """The file that `import DOTTED` in `asked` reads, as far as it is one of the sources.

        Where a program is imported from is only known when it runs: of several files whose paths end so, it is the one
        with most folders in common with who asks.
        """
        found = self._by_tail.get(tuple(dotted.split(".")), ())
        return max(found, key=lambda module: _common(module.package, asked.package), default=None)

    def canonical(self, dotted: str, asked: Module) -> str:
        """What a dotted name means after all imports of the sources: `chaos.inside.recovery_path`."""
        for _ in range(20):  # names that are imported in a ring mean nothing
            found = self.locate(dotted, asked)
            if found is None:
                return dotted
            module, name = found
            first, dot, rest = name.partition(".")
            if first in module.imports:
                dotted, asked = module.imports[first] + dot + rest, module
            elif star := self._starred(module, first):
                dotted, asked = f"{star}.{name}", module
            else:
                return dotted
        return dotted

    def locate(self, dotted: str, asked: Module) -> tuple[Module, str] | None:
        """The file that a dotted name leads into, and the rest of it there."""
        parts = dotted.split(".")
        for size in range(len(parts) - 1, 0, -1):
            if (module := self.module(".".join(parts[:size]), asked)) is not None:
                return module, ".".join(parts[size:])
        return None

    def meaning(self, node: ast.AST, module: Module) -> str | None:
        """The dotted name that an expression such as `i.recovery_path` stands for; None where it is none.

        A name that the file itself defines is `FILE:name`; one that it renames (`enter = i.recovery_path`) what is
        behind it.
        """
        for _ in range(20):
            dotted = written(node)
            if dotted is None:
                return None
            first, dot, rest = dotted.partition(".")
            if first in module.imports:
                return self.canonical(module.imports[first] + dot + rest, module)
            if star := self._starred(module, first):
                return self.canonical(f"{star}.{dotted}", module)
            renamed = [value for value in module.assigned(first, None) if written(value) not in (None, first)]
            if dot or len(renamed) != 1:
                return f"{module.shown}:{dotted}"
            node = renamed[0]
        return None

    def defined(self, node: ast.AST, module: Module) -> tuple[Module, ast.AST] | None:
        """The function or class of the sources that an expression names."""
        dotted = written(node)
        if dotted is None:
            return None
        first, dot, rest = dotted.partition(".")
        if first not in module.imports:
            return top_level(module, dotted)
        found = self.locate(self.canonical(module.imports[first] + dot + rest, module), module)
        return top_level(*found) if found else None

    def _starred(self, module: Module, name: str) -> str | None:
        for star in module.stars:
            inner = self.module(star, module)
            if star == "chaos.inside" and name in ("recovery_path", "recovers", "emit"):
                return star
            if inner is not None and inner is not module and (name in inner.imports or top_level(inner, name)):
                return star
        return None


def written(node: ast.AST) -> str | None:
    """`a.b.c` as it is written; None for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join((node.id, *reversed(parts))) if isinstance(node, ast.Name) else None


def top_level(module: Module, dotted: str) -> tuple[Module, ast.AST] | None:
    """The function or class of that name in a file: `Vault.settle` as well."""
    found: ast.AST | None = module.tree
    for part in dotted.split("."):
        found = module.defined(found).get(part) if isinstance(found, ast.Module | ast.ClassDef) else None
    return (module, found) if found is not None else None


def _flat(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements of a body, those under `if` and `try` among them."""
    for node in body:
        yield node
        if isinstance(node, ast.If | ast.Try):
            parts = [node.body, node.orelse, getattr(node, "finalbody", [])]
            parts += [handler.body for handler in getattr(node, "handlers", [])]
            for part in parts:
                yield from _flat(part)


def read_program(files: Iterable[Path], base: Path, shown: Callable[[Path], str]) -> Program:
    """Every Python file among `files`; those of tests, by their place below `base`, are none of the program."""
    modules: list[Module] = []
    problems: list[str] = []
    for path in files:
        if not is_python(path) or is_test(Path(os.path.relpath(path, base))):
            continue
        name = shown(path)
        try:
            data = path.read_bytes()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SyntaxWarning)
                tree = ast.parse(data, name)
            modules.append(Module(path, name, tree, data.decode(errors="replace")))
        except SyntaxError as error:
            problems.append(f"{name}:{error.lineno or 1}: cannot be read: {error.msg}")
        except (OSError, ValueError, RecursionError) as error:
            problems.append(f"{name}:1: cannot be read: {error}")
    return Program(modules, problems)


def is_python(path: Path) -> bool:
    """Whether a file is a program in Python, also one that is only called `worker`."""
    if path.suffix:
        return path.suffix in (".py", ".pyw")
    try:
        with path.open("rb") as file:
            first = file.readline(200)
    except OSError:
        return False
    return first.startswith(b"#!") and b"python" in first


def is_test(path: Path) -> bool:
    """Whether a file holds tests, by the names that everybody uses."""
    name = path.name
    return name == "conftest.py" or name.startswith("test_") or name.endswith("_test.py") or _below_tests(path)


def _below_tests(path: Path) -> bool:
    return any(part in _TESTS for part in path.parts[:-1])


def _common(one: tuple[str, ...], other: tuple[str, ...]) -> int:
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
