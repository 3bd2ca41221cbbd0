"""The published schema says what the loader accepts, as far as a schema can."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from chaos.load import load_experiment
from chaos.load.schema import json_schema
from chaos.registry import Registry

from .broken import AT, HEAD, KILL, control, freeze, steady, step, when, whom
from .conftest import GOOD, Load

jsonschema = pytest.importorskip("jsonschema")
EXPERIMENTS = sorted((Path(__file__).parents[2] / "experiments").rglob("*.yaml"))


@pytest.fixture(scope="module")
def validator(registry: Registry) -> Any:
    schema = json_schema(registry)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(json.loads(json.dumps(schema)))


def test_the_example_of_the_design_is_valid(validator: Any) -> None:
    validator.validate(yaml.safe_load(GOOD))


@pytest.mark.slow
def test_every_experiment_of_the_repository_is_valid() -> None:
    assert EXPERIMENTS
    validator = jsonschema.Draft202012Validator(json_schema())
    for path in EXPERIMENTS:
        validator.validate(yaml.safe_load(path.read_text()))


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda p: p.stem)
def test_every_experiment_of_the_repository_loads(path: Path) -> None:
    assert load_experiment(path).invariants


ACCEPTED = [
    when("{at: 250ms, delay: 1.5s}"),
    when("{event: {kind: step.completed, where: {step: {at-least: 3}, rank: [0, 1]}, nth: 2}}"),
    when("{event: step.completed, where: {rank: {between: [0, 1]}}}"),
    when("{point: checkpoint.before_commit, where: {generation: 3}}"),
    when("{log: oom, nth: 2}"),
    when("{log: {member: worker-*, regex: oom}}"),
    when("{every: 30s, times: 4}"),
    when("{poisson: 2/h}"),
    whom("{nodes: n1}"),
    whom("{domains: {rack: r0}, random: 1}"),
    whom("{percent: 25%}"),
    freeze("hold: '${lease}'"),
    freeze("duty: 50%", "scratch: 64KiB", "how: cgroup", "threads: '${nodes}'", "note: null", "signals: [1]"),
    steady("between: [0.5 of baseline, 90% of baseline]", "mode: continuous"),
    steady("at-least: 12 samples/s", "window: 5s", "every: 1s"),
    control("invariants: [fenced-writer]"),
    control("invariants: [fenced-writer: {attempt: optional}]"),
    control("budget: {rpo: {steps: 20, seconds: 3s}, rto: {total: 1m}}"),
]

REFUSED = [
    control("seeds: 3"),
    control("seed: -1"),
    control("title: [a]"),
    control("tags: a"),
    f"{HEAD}method: kill",
    f"{HEAD}method:",
    "method: []",
    when("{at: 5}"),
    when("{at: fast}"),
    when("{at: 5 parsecs}"),
    when("{at: 1s, event: step.completed}"),
    when("{at: 1s, nth: 2}"),
    when("{poisson: 2}"),
    when("{}"),
    whom("{}"),
    whom("{racks: r0}"),
    whom("{random: 0}"),
    step("fault: network.partion", AT),
    step("fault: network.partition", "between: [{nodes: n1}]", AT),
    step("fault: process.kill", AT),
    step(*KILL.replace("members", "membrs").split(", "), AT),
    step("fault: process.kill", "members: {ranks: 1}", AT, "hold: 5s"),
    freeze("how: stpo"),
    freeze("threads: 65"),
    freeze("hold: -1s"),
    steady(),
    steady("at-least: 1", "at-most: 2"),
    steady("at-least: 1", "tolerance: 2"),
    steady("at-least: 1", "mode: egde"),
    steady("equals: true"),
    control("budget: {rto: {total: 30}}"),
    control("budget: {rpo: {steps: -1}}"),
    control("limits: {wal: 3s}"),
    control("invariants: [fenced-writers]"),
    control("invariants: [fenced-writer: {atempt: optional}]"),
]


@pytest.mark.parametrize("text", ACCEPTED)
def test_what_the_loader_accepts_is_valid(validator: Any, load: Load, text: str) -> None:
    assert load(text)
    validator.validate(yaml.safe_load(text))


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_wrong_without_knowing_the_target_is_invalid(validator: Any, text: str) -> None:
    assert not validator.is_valid(yaml.safe_load(text))
