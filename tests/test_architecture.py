"""The layers of `chaos/`: a module imports only from layers below, columns do not know each other, no cycles."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "chaos"
LAYERS = {
    "clean": 0,
    "errors": 0,
    "history": 0,
    "trigger": 0,
    "verdict": 0,
    "units": 0,
    "inside": 0,
    "fileops": 0,
    "api": 1,
    "capabilities": 1,
    "ways": 1,
    "storage": 1,
    "talk": 1,
    "exchanges": 1,
    "evidence": 1,
    "experiment": 1,
    "layout": 1,
    "paths": 1,
    "result": 1,
    "selection": 1,
    "serving": 1,
    "statistics": 1,
    "standstill": 1,
    "training": 1,
    "faults": 2,
    "drivers": 2,
    "probes": 2,
    "invariants": 2,
    "archive": 2,
    "build": 2,
    "gameday": 2,
    "gate": 2,
    "inventory": 2,
    "plan": 2,
    "trend": 2,
    "judge": 2,
    "report": 2,
    "runner": 2,
    "journal": 2,
    "doctor": 2,
    "toxiproxy": 2,  # a process of its own: it imports nothing else of chaos
    "guardian": 2,
    "__main__": 3,
    "cli": 3,
    "load": 3,
    "registry": 3,
    "testing": 3,
    "fake_network": 3,
    "fake_exchanges": 3,
    "fake_storage": 3,
    "fake_store": 3,
    "fake_talk": 3,
    "catalogue": 3,
    "pytest_plugin": 3,
}
HEAVY = {
    "apscheduler",
    "boto3",
    "botocore",
    "coverage",
    "moto",
    "torch",
    "numpy",
    "docker",
    "locust",
    "pynvml",
    "pyroute2",
    "rich",
    "jinja2",
    "junit_xml",
}
MODULES = sorted(p for p in ROOT.rglob("*.py") if p != ROOT / "__init__.py")


def unit(path: Path) -> str:
    """The name in the picture of layers that a file belongs to."""
    first = path.relative_to(ROOT).parts[0]
    return first.removesuffix(".py")


def is_module(name: str) -> bool:
    """Whether a dotted name is a module or package of `chaos`, or directly below it."""
    path = ROOT.parent / name.replace(".", "/")
    return (name.count(".") == 1 and name.startswith("chaos.")) or path.is_dir() or path.with_suffix(".py").is_file()


def imports(tree: ast.AST) -> list[tuple[str, int]]:
    """Every imported module with its line: hidden imports (in functions, under TYPE_CHECKING) included."""
    found: list[tuple[str, int]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import in line {node.lineno}"
            for alias in node.names:  # `from chaos.judge import budget` means the module, where there is one
                name = f"{node.module}.{alias.name}"
                found.append((name if is_module(name) else node.module or "", node.lineno))
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_module_imports_only_from_layers_below(path: Path) -> None:
    here = unit(path)
    assert here in LAYERS, f"{here} has no layer yet"
    for name, line in imports(ast.parse(path.read_text())):
        parts = name.split(".")
        if parts[0] != "chaos" or len(parts) == 1 or parts[1] in ("__version__", here):
            continue
        assert parts[1] in LAYERS, f"{path}:{line} imports {name}"
        if (here, parts[1]) in (("runner", "journal"), ("runner", "guardian")):
            continue  # one column: who records, and where to
        # Values and contracts may build on each other, and the edge wires; only columns stand strictly apart.
        below = LAYERS[parts[1]] < LAYERS[here] or (LAYERS[here] == LAYERS[parts[1]] != 2)
        assert below, f"{path}:{line}: {here} may not import {name}"


def test_nothing_in_the_harness_imports_a_target() -> None:
    for path in MODULES:
        for name, line in imports(ast.parse(path.read_text())):
            assert name.split(".")[0] not in ("targets", "torch", "tests"), f"{path}:{line} imports {name}"


def is_later(node: ast.AST) -> bool:
    """Whether what stands in there is not run when the module is imported."""
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name):
        return node.test.id == "TYPE_CHECKING"
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_heavy_libraries_are_not_imported_at_start_up(path: Path) -> None:
    tree = ast.parse(path.read_text())
    inside = {id(n) for block in ast.walk(tree) if is_later(block) for n in ast.walk(block)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom) and id(node) not in inside:
            for name, line in imports(ast.Module(body=[node], type_ignores=[])):
                assert name.split(".")[0] not in HEAVY, f"{path}:{line} imports {name} at start-up"


def test_what_a_target_imports_needs_the_standard_library_only() -> None:
    for name, line in imports(ast.parse((ROOT / "inside.py").read_text())):
        assert name.split(".")[0] in sys.stdlib_module_names, f"inside.py:{line} imports {name}"


def test_there_are_no_cycles_between_modules() -> None:
    names = {
        ".".join(("chaos", *p.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__"): p for p in MODULES
    }
    graph = {
        module: {
            next((n for n in (name, name.rpartition(".")[0]) if n in names), "")
            for name, _ in imports(ast.parse(path.read_text()))
        }
        - {"", module}
        for module, path in names.items()
    }
    done: set[str] = set()

    def visit(module: str, trail: tuple[str, ...]) -> None:
        assert module not in trail, " → ".join((*trail[trail.index(module) :], module))
        if module not in done:
            for below in graph[module]:
                visit(below, (*trail, module))
            done.add(module)

    for module in graph:
        visit(module, ())


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_module_and_its_functions_stay_small(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") <= 400, f"{path} is too long: is there a second idea in it?"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or 0) - node.lineno + 1
            assert length <= 60, f"{path}:{node.lineno} {node.name} has {length} lines"


def test_every_plugin_file_has_one_plugin_class() -> None:
    bases = {"faults": "Fault", "probes": "Probe", "invariants": "Invariant"}
    for path in MODULES:
        base = bases.get(unit(path))
        if base is None or path.name == "__init__.py" or path.name.startswith("_"):
            continue
        classes = [
            node.name
            for node in ast.parse(path.read_text()).body
            if isinstance(node, ast.ClassDef) and any(base in ast.unparse(b).split("[")[0] for b in node.bases)
        ]
        assert len(classes) == 1, f"{path} defines {classes or 'no plugin'}"
