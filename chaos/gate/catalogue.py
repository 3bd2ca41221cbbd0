"""The catalogue of recovery paths as data: what must be proved, by which experiments, and what may wait."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from chaos.api import Duration
from chaos.experiment import Budget
from chaos.paths import Spot

Share = Annotated[float, Meta(ge=0, lt=1, extra={"unit": "ratio"}, description="a share, such as 10% or 0.1")]


class Policy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """What counts as proof of a path.

    `build`: `same` – the run tested the very files that the target has today; `commit` – today's commit, with no file
    differing from it then or now; `any`. `verdict: fail` is for an experiment that shows a known bug: it must still
    show it. `budget` bounds the upper end of the interval of the p95 over the runs. `undeclared` is about code that
    handles failures outside any declared path.
    """

    runs: Annotated[int, Meta(ge=1)] = 3
    fresh: Duration = 14 * 86400.0
    build: Literal["same", "commit", "any"] = "same"
    verdict: Literal["pass", "fail"] = "pass"
    flake_rate: Share = 0.0
    budget: Budget = Budget()
    lab: Literal["required", "any"] = "any"
    undeclared: Literal["warn", "block"] = "warn"

    def bounds(self) -> dict[str, float]:
        """The figures that are bounded, by name: `rto.total`, `rpo.steps`, …"""
        families: Mapping[str, msgspec.Struct | None] = {"rpo": self.budget.rpo, "rto": self.budget.rto}
        return {
            f"{family}.{name}": value
            for family, bounds in families.items()
            if bounds is not None
            for name, value in msgspec.structs.asdict(bounds).items()
            if value is not None
        }


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """An experiment that proves a path: its name, the file as a command would name it, the digest it has today."""

    name: str
    file: str
    digest: str


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A path that must be proved. `spot` is its line in the catalogue."""

    target: str
    path: str
    experiments: tuple[Recipe, ...]
    policy: Policy
    spot: Spot

    @property
    def name(self) -> str:
        """`trainer:checkpoint.rollback`, unique."""
        return f"{self.target}:{self.path}"


class Waiver(msgspec.Struct, frozen=True, kw_only=True):
    """A path that may stay unproved for a while; the day `until` is the last one."""

    path: str  # target:path
    owner: str
    reason: str
    until: date
    spot: Spot


class Catalogue(msgspec.Struct, frozen=True, kw_only=True):
    """The whole file, checked. `targets` are target files, as a command would name them."""

    file: str
    targets: tuple[str, ...]
    policy: Policy
    entries: tuple[Entry, ...] = ()
    waivers: tuple[Waiver, ...] = ()

    def entry(self, target: str, path: str) -> Entry | None:
        """What it says of a path."""
        return next((e for e in self.entries if (e.target, e.path) == (target, path)), None)


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """An experiment that could be listed for a path of `target`. `words` of its name, tags and title have a weight:
    what a file is called says most; `defect` is the deliberate bug that it switches on, which no proof may have."""

    target: str
    name: str
    file: str
    digest: str
    words: Mapping[str, int]
    defect: str = ""
