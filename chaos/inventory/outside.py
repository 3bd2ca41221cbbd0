"""Code that a target runs and that is not among its sources: what changes there would be no other build."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path

from chaos.inventory.source import Module, Program

_HARNESS = "chaos"  # what a target imports of it only speaks to a harness
_KNOWN = frozenset({*sys.stdlib_module_names, _HARNESS})
_MODULE = re.compile(r"-m[\"',]*\s+[\"']?([A-Za-z_][\w.]*)")
_SCRIPT = re.compile(r"[\w./-]+\.pyw?\b(?!:)")  # and not `code: "src/train.py:resume"`
_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")


def outside(program: Program, file: Path, files: Collection[Path], shown: Callable[[Path], str]) -> Iterator[str]:
    """Imports of files of the same repository that are none of `files`, once each, in what the target file `file` has
    run: a script beside it that no member comes to is a person's."""
    roots, inside, said = _roots(file.parent.resolve()), frozenset(files), set[Path]()
    asked = [(f"{shown(file)}:{line}", "starts", found) for line, found in _started(file, roots)]
    asked += [
        (str(module.spot(node)), "imports", found)
        for module in _run(program, file, roots)
        for node, found in _imported(module, roots)
    ]
    for place, how, found in asked:
        if not inside.intersection(found) and found[0] not in said:
            said.add(found[0])
            fix = f"`sources` of the target file do not have it: add {shown(found[0])}, relative to that"
            yield f"{place}: {how} {shown(found[0])}, and {fix}"


def _started(file: Path, roots: tuple[Path, ...]) -> Iterator[tuple[int, list[Path]]]:
    """What the target file names to be run, by its line, with all files that it can mean."""
    for number, line in enumerate(file.read_text(errors="replace").splitlines(), 1):
        words = line.partition(" #")[0]
        for name in _MODULE.findall(words):
            if name.partition(".")[0] not in _KNOWN:
                found = [f for root in roots if (f := _file(root, [*name.split("."), "__main__"])) is not None]
                if found:
                    yield number, found
        for name in _SCRIPT.findall(words):
            if (script := file.parent / name).is_file():
                yield number, [script.resolve()]


def _run(program: Program, file: Path, roots: tuple[Path, ...]) -> list[Module]:
    """The modules that members are started with, and all that these come to; every one where none is named."""
    by_file = {module.path.resolve(): module for module in program.modules}
    named = _named(file.read_text(errors="replace"), by_file)
    if not named:
        return list(program.modules)
    found = dict.fromkeys(named)
    queue = list(found)
    while queue:
        module = queue.pop()
        texts = (n.value for n in module.nodes if isinstance(n, ast.Constant) and isinstance(n.value, str))
        then = [by_file[f] for _, files in _imported(module, roots) for f in files if f in by_file]
        then += _named("\n".join(f"-m {text}" for text in texts if _DOTTED.fullmatch(text)), by_file)
        new = [each for each in dict.fromkeys(then) if each not in found]
        found |= dict.fromkeys(new)
        queue += new
    return [module for module in program.modules if module in found]


def _named(text: str, by_file: Mapping[Path, Module]) -> list[Module]:
    """The modules that a text has run: `-m targets.trainer.store`, `worker/main.py`."""
    asked = [tuple(name.split(".")) for name in _MODULE.findall(text)]
    asked += [Path(name).with_suffix("").parts for name in _SCRIPT.findall(text)]
    tails = [tuple(part for part in parts if part not in (".", "..")) for parts in asked]
    return [
        module
        for file, module in by_file.items()
        for parts in [(*file.parent.parts, file.stem)]
        for tail in tails
        if tail and (_ends(parts, tail) or (parts[-1] in ("__main__", "__init__") and _ends(parts[:-1], tail)))
    ]


def _ends(parts: tuple[str, ...], tail: tuple[str, ...]) -> bool:
    return parts[-len(tail) :] == tail


def _roots(base: Path) -> tuple[Path, ...]:
    """Where imports may begin: the target's folder and those around it, as far as the repository goes."""
    around = [base, *base.parents]
    home = next((place for place, folder in enumerate(around) if (folder / ".git").exists()), 0)
    return tuple(around[: home + 1])


def _imported(module: Module, roots: tuple[Path, ...]) -> Iterator[tuple[ast.AST, list[Path]]]:
    """Every import, with all files of these folders that it can mean; none where it is a library's."""
    for node in module.nodes:
        for places, dotted in _asked(module, node, roots):
            if found := [file for root in places if (file := _file(root, dotted)) is not None]:
                yield node, found


def _asked(module: Module, node: ast.AST, roots: tuple[Path, ...]) -> Iterator[tuple[tuple[Path, ...], list[str]]]:
    if isinstance(node, ast.Import):
        names = [alias.name.split(".") for alias in node.names]
        yield from ((roots, name) for name in names if name[0] not in _KNOWN)
    elif isinstance(node, ast.ImportFrom):
        start = (node.module or "").split(".") if node.module else []
        if node.level:
            folder = [module.path.parent, *module.path.parent.parents][node.level - 1 : node.level]
            yield from ((tuple(folder), [*start, alias.name]) for alias in node.names)
        elif start[0] not in _KNOWN:
            yield from ((roots, [*start, alias.name]) for alias in node.names)


def _file(root: Path, dotted: list[str]) -> Path | None:
    """The file that an import from `root` reads; of `from a import b` that of `a` where `b` is no file."""
    for parts in (dotted, dotted[:-1]):
        if not parts or parts == ["*"]:
            continue
        path = root.joinpath(*parts)
        for file in (path.with_name(f"{path.name}.py"), path / "__init__.py"):
            if file.is_file():
                return file.resolve()
    return None
