"""`index.html`: what is proved of which build, and every run that is on record, newest first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from chaos.evidence import Evidence
from chaos.paths import Inventory
from chaos.report.lines import number, seconds, shorten
from chaos.report.render import page
from chaos.report.story import WORDS
from chaos.units import counted
from chaos.verdict import Outcome

_RUNS = 1000  # rows, the newest
_SPARK = 30  # runs of an experiment in its small curve
_WIDE, _HIGH = 150.0, 26.0
_UNITS = ((86400.0 * 2, 86400.0, "days"), (7200.0, 3600.0, "hours"), (120.0, 60.0, "minutes"))


class Proof(NamedTuple):
    """A recovery path and what is known of it. `state`: proved, older (of another build), failed, never, gone."""

    target: str
    path: str
    state: str
    told: str
    passed: Evidence | None
    failed: Evidence | None
    experiments: tuple[str, ...]
    where: str  # its place in the code


class Line(NamedTuple):
    """An experiment and the course of its runs."""

    name: str
    target: str
    runs: int  # as the file says
    passes: int
    others: int  # with settings of their own: of another system
    last: Evidence
    spark: Spark | None


class Spark(NamedTuple):
    """The RTO of the last runs as a small curve, oldest left."""

    points: str
    dots: tuple[tuple[float, float, str], ...]  # x, y, outcome
    told: str


_STATES = {"never": 0, "failed": 1, "older": 2, "proved": 3, "gone": 4}
_MARKS = {"never": "✗", "failed": "✗", "older": "?", "proved": "✓", "gone": "–"}
_CLASSES = {"never": "fail", "failed": "fail", "older": "unknown", "proved": "pass", "gone": "soft"}


def encode(
    runs: Sequence[Evidence], inventories: Mapping[str, Inventory], *, now: float, links: Mapping[str, str]
) -> bytes:
    """The page. `inventories` by the target's name, of those targets that are known; `links`: run -> its report."""
    newest = sorted(runs, key=lambda e: (e.started, e.run), reverse=True)
    rows = proofs(newest, inventories, now)
    counts = {state: sum(row.state == state for row in rows) for state in _STATES}
    return page(
        "index.html.j2", styles=("base", "index"), scripts=("common", "theme", "index"),
        data={}, runs=newest[:_RUNS], left_out=max(len(newest) - _RUNS, 0), total=len(newest),
        proofs=rows, counts=counts, lines=lines(newest), links=links, known=bool(inventories),
        marks=_MARKS, classes=_CLASSES, words={outcome.value: word for outcome, word in WORDS.items()},
        age=lambda evidence: age(now - evidence.started), when=_when, build=_build,
        written=f"{datetime.fromtimestamp(now, UTC):%Y-%m-%d %H:%M} UTC",
    )  # fmt: skip


def proofs(newest: Sequence[Evidence], inventories: Mapping[str, Inventory], now: float) -> list[Proof]:
    """Every path that is declared or was exercised, what needs attention first. A run whose settings were overridden
    is of another system than its file says, and proves nothing here."""
    own = [e for e in newest if not e.overrides and e.conclusive]
    targets = dict.fromkeys([*inventories, *(e.target for e in own)])
    found: list[Proof] = []
    for target in targets:
        inventory, mine = inventories.get(target), [e for e in own if e.target == target]
        declared = [path.name for path in inventory.paths] if inventory is not None else []
        exercised = sorted({name for e in mine for name in (*e.paths, *e.entered)})
        current = inventory.sources if inventory is not None else mine[0].build.sources if mine else ""
        for name in dict.fromkeys([*declared, *exercised]):
            found.append(_proof(target, name, mine, inventory, current, now))
    return sorted(found, key=lambda row: (_STATES[row.state], row.target, row.path))


def _proof(
    target: str, name: str, mine: Sequence[Evidence], inventory: Inventory | None, current: str, now: float
) -> Proof:
    passed = next((e for e in mine if e.outcome is Outcome.PASS and name in e.paths), None)
    failed = next((e for e in mine if e.outcome is Outcome.FAIL and name in (*e.paths, *e.entered)), None)
    path = inventory.find(name) if inventory is not None else None
    experiments = tuple(dict.fromkeys(e.experiment for e in mine if name in e.paths))
    if inventory is not None and path is None:
        state, told = "gone", "no longer declared"
    elif passed is None:
        state, told = ("never", "never proved") if failed is None else ("failed", "only in runs that failed")
    elif failed is not None and failed.started > passed.started:
        state, told = "failed", "the last run failed"
    elif passed.build.sources != current:
        state, told = "older", "of another build only"
    else:
        state, told = "proved", "proved of this build"
    return Proof(target, name, state, told, passed, failed, experiments, str(path.where or "") if path else "")


def lines(newest: Sequence[Evidence]) -> list[Line]:
    """The experiments, the one that ran last first."""
    by: dict[tuple[str, str], list[Evidence]] = {}
    others = Counter((e.experiment, e.target) for e in newest if e.overrides)
    for evidence in newest:
        if not evidence.overrides:
            by.setdefault((evidence.experiment, evidence.target), []).append(evidence)
    return [
        Line(*at, len(of), sum(e.outcome is Outcome.PASS for e in of), others[at], of[0], spark(of[:_SPARK][::-1]))
        for at, of in by.items()
    ]


def spark(oldest: Sequence[Evidence]) -> Spark | None:
    """None where no run of them has an RTO."""
    known = [(e.figures["rto.total"], e.outcome.value) for e in oldest if "rto.total" in e.figures]
    if not known:
        return None
    high = max(value for value, _ in known) or 1.0
    step = (_WIDE - 10) / max(len(known) - 1, 1)
    dots = tuple(
        (round(5 + i * step, 1), round(_HIGH - 4 - (_HIGH - 8) * v / high, 1), o) for i, (v, o) in enumerate(known)
    )
    values = [value for value, _ in known]
    told = (
        f"{seconds(values[-1])} last, {seconds(min(values))} to {seconds(max(values))} over "
        f"{counted(len(values), 'run')}"
    )
    return Spark(" ".join(f"{x},{y}" for x, y, _ in dots), dots, told)


def age(past: float) -> str:
    """`5 minutes ago`."""
    for least, unit, word in _UNITS:
        if past >= least:
            return f"{number(int(past / unit))} {word} ago"
    return "just now"


def _when(evidence: Evidence) -> str:
    return f"{datetime.fromtimestamp(evidence.started, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _build(evidence: Evidence) -> str:
    commit = evidence.build.commit[:10]
    return f"{commit}{'+' if evidence.build.dirty else ''}" if commit else shorten(evidence.build.sources[:10], 10)
