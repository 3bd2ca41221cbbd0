"""YAML to an `Experiment`: strict, and every mistake at once with `file:line:column`, reason and fix."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from chaos.api import Invariant
from chaos.errors import SpecError
from chaos.experiment import Budget, Ending, Experiment, Limits, TargetSpec
from chaos.load.budget import read_budget
from chaos.load.document import INVALID, EnoughProblems, Node, Problems, compose, read, show
from chaos.load.hypotheses import read_hypotheses
from chaos.load.method import read_method
from chaos.load.plugins import find_kind
from chaos.load.reader import Reader, substitute
from chaos.load.target import load_target
from chaos.load.triggers import HARNESS, Scope
from chaos.registry import Registry, installed

KEYS = (
    "title", "description", "tags", "target", "settings", "seed", "steady-state-hypothesis", "method", "budget",
    "invariants", "abort", "limits", "job",
)  # fmt: skip


def load_experiment(
    path: str | Path, *, overrides: Mapping[str, str] | None = None, seed: int | None = None,
    registry: Registry | None = None,
) -> Experiment:  # fmt: skip
    """Read and check an experiment with its target. `overrides` are `--set` settings, `seed` takes precedence.

    Raises SpecError with all mistakes, in file order; PluginError only where two installed plugins claim one kind.
    """
    file, problems = Path(path), Problems()
    problems.visit(str(file))
    found = None
    with suppress(EnoughProblems):
        text = read(file, problems)
        root = compose(str(file), text, problems) if text is not None else None
        found = _experiment(file, root, overrides or {}, seed, registry or installed(), problems) if root else None
    if len(problems) or found is None:
        raise SpecError(tuple(problems))
    return found


def _experiment(
    file: Path, root: Node, overrides: Mapping[str, str], seed: int | None, registry: Registry, problems: Problems
) -> Experiment | None:
    reader = Reader(problems)
    if not isinstance(root.value, dict):
        reason = (
            f"an experiment is a mapping, not {show(root.value)}" if root.value is not None else "the file is empty"
        )
        problems.add(root.place, reason, f"keys: {', '.join(KEYS)}")
        return None
    entries = reader.mapping(root, "the experiment", KEYS, ("target", "method"))
    seed = _seed(entries.get("seed"), reader) if seed is None else seed
    target = None
    if "target" in entries:
        target = load_target(entries["target"], file.parent, entries.get("settings"), overrides, registry, problems)
    variables = {**target.settings, "seed": seed} if target else None
    fixed = ("target", "settings", "seed")
    entries = {k: n if k in fixed else substitute(n, variables, problems) for k, n in entries.items()}
    steady, abort, units = read_hypotheses(
        entries.get("steady-state-hypothesis"), entries.get("abort"), registry, problems
    )
    method = read_method(entries["method"], Scope(target, units), registry, problems) if "method" in entries else ()
    _check_modes(entries, problems)
    if target is not None and "budget" in entries:
        _check_budget(entries["budget"], target, problems)
    fields = _plain_fields(entries, reader)
    invariants = _invariants(entries["invariants"], target, registry, reader) if "invariants" in entries else ()
    if len(problems) or target is None:
        return None
    return Experiment(
        **{"title": file.stem, **fields},
        name=file.stem, path=str(file), target=target, seed=seed, steady=steady, method=method,
        invariants=invariants, abort=abort,
    )  # fmt: skip


def _seed(node: Node | None, reader: Reader) -> int:
    seed = reader.read(node, int) if node is not None else 0
    if seed is INVALID:
        return 0
    if seed < 0 and node is not None:
        reader.problems.add(node.place, f"{show(seed)} is not at least 0")
    return int(seed)


def _plain_fields(entries: Mapping[str, Node], reader: Reader) -> dict[str, Any]:
    """What needs no more than its type."""
    types: Mapping[str, Any] = {
        "title": str,
        "description": str,
        "tags": tuple[str, ...],
        "limits": Limits,
        "job": Ending,
    }
    fields = {key: reader.read(entries[key], type_) for key, type_ in types.items() if key in entries}
    if "budget" in entries:
        fields["budget"] = read_budget(entries["budget"], reader)
    return {"description": "", "tags": (), "limits": Limits(), "budget": Budget(), **fields}


def _check_modes(entries: Mapping[str, Node], problems: Problems) -> None:
    """A hypothesis for the time of a fault is never judged where there is no fault."""
    method, steady = entries.get("method"), entries.get("steady-state-hypothesis")
    if method is None or method.value != [] or steady is None or not isinstance(steady.value, list):
        return
    for node in steady.value:
        mode = node.value.get("mode") if isinstance(node.value, dict) else None
        if mode is not None and mode.value == "during":
            problems.add(mode.place, "`during` is never judged: the method has no fault", "use `continuous`")


def _check_budget(node: Node, target: TargetSpec, problems: Problems) -> None:
    """A service loses no work that is done again, and forms no group: what bounds these is never judged."""
    if "request.completed" not in target.events or "step.completed" in target.events:
        return
    parts = node.value if isinstance(node.value, dict) else {}
    fix = "bound `rto: {total, detect}`, or a probe"
    if "rpo" in parts:
        problems.add(
            parts["rpo"].place, f"`rpo` means nothing for {target.name}: it tells of requests, not of steps", fix
        )
    rto = parts["rto"].value if "rto" in parts else None
    for key, part in (rto if isinstance(rto, dict) else {}).items():
        if key in ("restart", "load", "warmup"):
            problems.add(part.place, f"`rto.{key}` means nothing for {target.name}: its clients await no group", fix)


def _invariants(
    node: Node, target: TargetSpec | None, registry: Registry, reader: Reader
) -> tuple[tuple[str, Invariant], ...]:
    """Names, or `{name: {settings}}`; refused where the target declares that it cannot feed one."""
    found: dict[str, Invariant] = {}
    for item in reader.sequence(node, "`invariants`"):
        settings = None
        name = item
        if isinstance(item.value, dict):
            if len(item.value) != 1:
                reader.problems.add(item.place, "one invariant an item", "write `- name: {settings}`")
                continue
            ((kind, settings),) = item.value.items()
            name = Node(item.keys[kind], kind)
        cls = find_kind(name, "invariants", registry, reader)
        if cls is INVALID:
            continue
        kind = str(name.value)
        if kind in found:
            reader.problems.add(name.place, f"`{kind}` is given twice", "remove one")
        known = {*HARNESS, *target.events} if target and "events" in target.raw else cls.needs
        missing = [event for event in cls.needs if event not in known]
        if missing:
            reason = f"`{kind}` cannot be judged: the target declares no {', '.join(f'`{e}`' for e in missing)}"
            reader.problems.add(name.place, reason, "emit and declare them, or remove the invariant")
        if settings is None or settings.value is None:
            settings = Node(name.place, {})
        invariant = reader.struct(settings, cls, f"`{kind}`")
        if invariant is not INVALID:
            found[kind] = invariant
    return tuple(found.items())
