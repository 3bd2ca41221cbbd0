"""Evidence written by hand."""

from __future__ import annotations

from typing import Any

from chaos.errors import Exit
from chaos.evidence import Build, Evidence
from chaos.paths import Inventory, Path, Spot
from chaos.verdict import Outcome

NOW = 2_000_000.0
OUTCOMES = {Exit.PASS: Outcome.PASS, Exit.FAIL: Outcome.FAIL}


def proof(
    number: int, *paths: str, exit: Exit = Exit.PASS, ago: float = 60.0, build: str = "new", **more: Any
) -> Evidence:
    """A run of `kill` on the trainer, `ago` seconds before NOW."""
    name = more.pop("experiment", "kill")
    fields: dict[str, Any] = {
        "run": f"run-{number}", "folder": f"/runs/run-{number}", "experiment": name, "file": f"/x/{name}.yaml",
        "target": "trainer", "recipe": "r", "build": Build(sources=build), "started": NOW - ago, "exit": exit,
        "outcome": OUTCOMES.get(exit, Outcome.UNKNOWN), "headline": f"headline {number}", "paths": paths,
        "figures": {"rto.total": float(number), "rpo.steps": 3.0},
    }  # fmt: skip
    return Evidence(**{**fields, **more})


def inventory(*names: str, sources: str = "new") -> Inventory:
    """What the trainer declares now."""
    paths = tuple(Path(name=name, declared=(Spot("trainer.py", i + 1),)) for i, name in enumerate(names))
    return Inventory(target="trainer", file="target.yaml", sources=sources, paths=paths)
