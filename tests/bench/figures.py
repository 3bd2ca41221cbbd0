"""Figures side by side: ours, the peer's or the bare way's, the ratio, and the goal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from math import ceil
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One line of the print. `beside` is measured in the same run, on the peer or on the bare way `against` names.

    `bound` is the largest value that meets the goal; with `of_beside`, the largest ratio.
    """

    what: str
    unit: str
    ours: float
    beside: float | None = None
    against: str = ""
    bound: float | None = None
    of_beside: bool = False
    note: str = ""

    @property
    def ratio(self) -> float | None:
        return self.ours / self.beside if self.beside else None

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None where there is none, or nothing to compare with."""
        value = self.ratio if self.of_beside else self.ours
        return None if self.bound is None or value is None else value <= self.bound

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "ratio": self.ratio, "met": self.met}

    def cells(self) -> tuple[str, ...]:
        beside = "" if self.beside is None else f"{_number(self.beside)} {self.against}".rstrip()
        ratio = "" if self.ratio is None else f"{self.ratio:.2f}"
        goal = "" if self.bound is None else f"≤ {_number(self.bound)}{' ×' if self.of_beside else ''}"
        verdict = {True: "met", False: "MISSED", None: ""}[self.met]
        return (self.what, self.unit, _number(self.ours), beside, ratio, goal, verdict, self.note)


HEAD = ("", "unit", "ours", "beside", "ratio", "goal", "", "")


def table(figures: Iterable[Figure]) -> str:
    """The figures as aligned columns."""
    rows = [HEAD, *(figure.cells() for figure in figures)]
    wide = [max(len(row[i]) for row in rows) for i in range(len(HEAD))]
    align = [str.ljust if i in (0, 1, 6, 7) else str.rjust for i in range(len(HEAD))]
    return "\n".join("  ".join(a(c, w) for a, c, w in zip(align, row, wide, strict=True)).rstrip() for row in rows)


def percentile(values: Sequence[float], share: float) -> float:
    """The nearest-rank percentile: a value that occurred, so the p99 of 20 is their maximum."""
    return sorted(values)[max(0, ceil(share * len(values)) - 1)]


def median(values: Sequence[float]) -> float:
    return percentile(values, 0.5)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.3g}"
