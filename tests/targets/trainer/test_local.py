"""The whole trainer without the harness, as a person tries it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]

Heard = list[tuple[str, str, dict[str, Any]]]  # member, kind, data


def local(*arguments: str) -> tuple[int, Heard]:
    command = [sys.executable, "-m", "targets.trainer.local", *arguments]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=55)
    lines = [line.split(maxsplit=3) for line in ended.stdout.splitlines() if line.endswith("}")]
    return ended.returncode, [(member, kind, json.loads(data)) for _, member, kind, data in lines]


@pytest.mark.slow
def test_a_killed_rank_is_replaced_and_repeats_the_lost_steps_bit_for_bit() -> None:
    code, heard = local("--nodes", "2", "--steps", "12", "--set", "checkpoint_every=4", "--kill-rank", "1@6")
    assert code == 0
    losses: dict[int, set[str]] = {}
    for _, kind, data in heard:
        if kind == "step.completed":
            losses.setdefault(data["step"], set()).add(repr(data["loss"]))
    assert sorted(losses) == list(range(1, 13))
    assert all(len(said) == 1 for said in losses.values())
    epochs = {data["epoch"] for _, kind, data in heard if kind == "step.completed" and data["step"] == 6}
    assert len(epochs) == 2
    assert "worker.restart" in [data.get("name") for _, kind, data in heard if kind == "path.exercised"]
