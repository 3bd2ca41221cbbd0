"""Verbs that answer a question and run nothing: validate, schema, list, explain, doctor."""

from __future__ import annotations

import argparse
import sys

from chaos.errors import ChaosError, Exit, SpecError
from chaos.units import counted


def main(call: argparse.Namespace) -> int:
    """Dispatch to the verb."""
    return int(
        {"validate": validate, "schema": schema, "list": kinds, "explain": explain, "doctor": doctor}[call.verb](call)
    )


def overrides(call: argparse.Namespace) -> dict[str, str]:
    """`--set NAME=VALUE`, the last one of a name wins."""
    pairs = [text.partition("=") for text in call.set]
    for name, equals, _ in pairs:
        if not equals or not name:
            raise SpecError(f"--set {name}: expected NAME=VALUE")
    return {name: value for name, _, value in pairs}


def validate(call: argparse.Namespace) -> int:
    """Every mistake of every file."""
    from chaos.load import load_experiment

    worst = 0
    for path in call.files:
        try:
            experiment = load_experiment(path, overrides=overrides(call), seed=call.seed)
            _plan(experiment)
            steps, invariants = len(experiment.method), len(experiment.invariants)
            print(f"{path}: ok ({counted(steps, 'step')}, {counted(invariants, 'invariant')})")
        except ChaosError as error:
            print(error, file=sys.stderr)
            worst = max(worst, error.exit)
    return worst


def _plan(experiment: object) -> None:
    from chaos.experiment import Experiment
    from chaos.plan import plan

    assert isinstance(experiment, Experiment)
    plan(experiment)


def schema(call: argparse.Namespace) -> int:
    """The JSON Schema of the experiment file."""
    from chaos.catalogue import json_schema

    _print_json(json_schema())
    return Exit.PASS


def _print_json(value: object) -> None:
    import json

    print(json.dumps(value, indent=2))


def kinds(call: argparse.Namespace) -> int:
    """What can be named in an experiment."""
    from chaos.catalogue import list_kinds

    group = None
    for row in list_kinds(call.group):
        if row.group != group:
            group = row.group
            print(f"{group}:")
        print(f"  {row.kind:28} {row.id:4} {row.summary}")
    return Exit.PASS


def explain(call: argparse.Namespace) -> int:
    """One kind in full."""
    from chaos.catalogue import explain as text

    print(text(call.kind))
    return Exit.PASS


def doctor(call: argparse.Namespace) -> int:
    """What this machine can do."""
    from chaos.doctor import examine
    from chaos.registry import installed

    rows = examine(installed().driver("process")())
    if call.json:
        _print_json([{"name": r.name, "ok": r.ok, "detail": r.detail, "fix": r.fix} for r in rows])
        return Exit.PASS
    for row in rows:
        print(f"{'ok' if row.ok else '--'}  {row.name:18} {row.detail}")
        if not row.ok and row.fix:
            print(f"    {'':18} fix: {row.fix}")
    return Exit.PASS
