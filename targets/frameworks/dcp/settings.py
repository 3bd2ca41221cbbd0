"""What a run is told, read once from the environment."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, NamedTuple


class Settings(NamedTuple):
    """The settings of `target.yaml`, and where checkpoints go."""

    program: str
    library: str
    world: int
    shard: bool
    steps: int
    checkpoint_every: int
    step_seconds: float
    group_timeout: float
    max_restarts: int
    checkpoints: Path

    @classmethod
    def from_environment(cls) -> Settings:
        told: dict[str, Any] = json.loads(os.environ["CHAOS_SETTINGS"])
        known = {name: told[name] for name in cls._fields if name in told}
        return cls(**known, checkpoints=Path(os.environ["CHAOS_DATA"], "checkpoints"))

    @property
    def guarded(self) -> bool:
        """Whether the program does what a user does who knows of the bug."""
        return self.library == "guarded"

    @property
    def as_it_was(self) -> bool:
        """Whether the library, or the way of using it, is that of before the fix."""
        return self.library == "as-it-was"
