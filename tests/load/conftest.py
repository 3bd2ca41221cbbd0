"""A registry of tiny plugins, a target that uses them, and a way to write broken files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from chaos.errors import SpecError
from chaos.experiment import Experiment
from chaos.load import load_experiment
from chaos.registry import GROUPS, Registry

TARGET = """\
name: sample
driver: process
settings: {nodes: 4, steps: 100, ratio: 0.5, defect: none, fast: false, lease: 3s}
choices: {defect: [none, no-fencing]}
events:
  step.completed: [step, rank, epoch]
  write.accepted: [token, highest]
  quiet.event:
points:
  checkpoint.before_commit: [generation, step, epoch]
recovery-paths: [checkpoint.rollback]
ends: {role: coordinator}
members: [{name: coordinator-0, node: "n${i}", command: [run, "${steps}", "${data}/x", "${address.n0}", "${last}"]}]
"""

GOOD = """\
title: A sample
description: Says what it is for.
tags: [a, b]
target: target.yaml
settings: {nodes: 4}
seed: 7
steady-state-hypothesis:
  - probe: training.throughput
    at-least: 0.7 of baseline
    mode: edge
method:
  - fault: network.partition
    between: [{nodes: [n3]}, {nodes: rest}]
    when: {point: checkpoint.before_commit, where: {generation: 3}}
    hold: 8s
  - fault: process.kill
    members: {ranks: [1]}
    when: {after: network.partition, delay: 2s}
budget:
  rpo: {steps: 20}
  rto: {total: 30s, detect: 6s, restart: 12s, load: 5s, warmup: 7s}
invariants: [fenced-writer]
abort:
  - probe: host.memory
    at-most: 90%
limits: {wall: 180s, members-hurt: 2}
"""

Load = Callable[..., Experiment]
Mistakes = Callable[..., list[str]]


@pytest.fixture(scope="session")
def registry() -> Registry:
    """The sample plugins alone."""
    return Registry({group: f"{__package__}.sample.{group}" for group in GROUPS}, entry_points=False)


@pytest.fixture
def load(tmp_path: Path, registry: Registry) -> Load:
    """Load an experiment from text; `target` is the text of the target file beside it."""

    def call(text: str | bytes, target: str = TARGET, *, seed: int | None = None, **overrides: str) -> Experiment:
        (tmp_path / "target.yaml").write_text(target)
        file = tmp_path / "sample.yaml"
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return load_experiment(file, overrides=overrides, seed=seed, registry=registry)

    return call


@pytest.fixture
def mistakes(load: Load, tmp_path: Path) -> Mistakes:
    """Every mistake of a broken experiment as `file:line:column: reason (fix)`, file names without their folder."""

    def call(text: str | bytes, **more: str) -> list[str]:
        with pytest.raises(SpecError) as caught:
            load(text, **more)
        assert caught.value.exit == 2
        return [str(problem).replace(f"{tmp_path}/", "") for problem in caught.value.problems]

    return call
