"""Every experiment on the correct target and on each of its defects: the proof that the harness can turn red.

`python -m ci.proof [-n N] [--jobs J] [--only EXPERIMENT] [--markdown FILE]`. Exit code 0 when every
cell is as `ci/proof.yaml` says.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import yaml

ROOT = Path(__file__).parents[1]
TABLE = ROOT / "ci" / "proof.yaml"


class Cell(NamedTuple):
    """One experiment on one variant of its target; `expected` is the check that must fail, None for all green."""

    experiment: str
    defect: str | None
    expected: str | None


class Outcome(NamedTuple):
    """What one run of a cell said."""

    good: bool
    said: str
    seconds: float
    folder: str


def cells(table: Path = TABLE) -> Iterator[Cell]:
    """The table, the correct target of each experiment first."""
    for experiment, defects in yaml.safe_load(table.read_text()).items():
        yield Cell(experiment, None, None)
        for defect, expected in (defects or {}).items():
            yield Cell(experiment, defect, expected)


def judge(cell: Cell, code: int, verdict: dict[str, object] | None) -> tuple[bool, str]:
    """Whether a run says what the table says, and what it said."""
    checks = verdict.get("checks", []) if verdict else []
    assert isinstance(checks, list)
    failing = [c["name"] for c in checks if c["verdict"]["outcome"] == "fail"]
    said = ", ".join(failing) if failing else {0: "pass", 3: "inconclusive"}.get(code, f"exit {code}")
    if cell.expected is None:
        return code == 0, said
    return code == 1 and cell.expected in failing, said


def run(cell: Cell, out: Path) -> Outcome:
    """Run one cell once, in a new folder of its own below `out`."""
    out.mkdir(parents=True, exist_ok=True)
    out = Path(tempfile.mkdtemp(prefix=f"{cell.experiment}-{cell.defect or 'correct'}-", dir=out))
    command = [sys.executable, "-m", "chaos", "run", f"experiments/{cell.experiment}.yaml", "-q", "--out", str(out)]
    began = time.monotonic()
    done = subprocess.run(
        command + ([f"--set=defect={cell.defect}"] if cell.defect else []),
        cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    seconds = time.monotonic() - began
    folder = next((p for p in out.iterdir() if not p.is_symlink()), None)
    path = folder / "verdict.json" if folder else None
    verdict = json.loads(path.read_text()) if path and path.exists() else None
    good, said = judge(cell, done.returncode, verdict)
    if verdict is None and done.stderr:
        said += f": {done.stderr.strip().splitlines()[-1][:100]}"
    return Outcome(good, said, seconds, str(folder))


def name(cell: Cell) -> str:
    """As `--only` takes it."""
    return f"{cell.experiment}/{cell.defect or 'correct'}"


def row(cell: Cell, outcomes: list[Outcome]) -> str:
    """Print what the runs of a cell said; its row of the table."""
    good, runs = sum(o.good for o in outcomes), len(outcomes)
    seconds = statistics.median(o.seconds for o in outcomes)
    expected = f"fail: {cell.expected}" if cell.expected else "pass"
    mark = "ok " if good == runs else "BAD"
    print(
        f"{mark} {cell.experiment:45} {cell.defect or '-':25} {expected:35} {good}/{runs} {seconds:5.1f}s", flush=True
    )
    for outcome in outcomes:
        if not outcome.good:
            print(f"      said {outcome.said}; see {outcome.folder}", flush=True)
    return f"| {cell.experiment} | {cell.defect or '–'} | {expected} | {good}/{runs} | {seconds:.0f} s |"


def main() -> int:
    """Run the table and print it row by row."""
    parser = argparse.ArgumentParser(prog="proof", description=__doc__)
    parser.add_argument("-n", type=int, default=1, help="runs of each cell (default 1)")
    parser.add_argument("--jobs", type=int, default=1, help="runs at the same time (default 1)")
    parser.add_argument("--only", action="append", help="only this experiment, or experiment/defect; repeatable")
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / "proof", help="where the runs' folders go")
    parser.add_argument("--markdown", type=Path, help="also write the table there")
    call = parser.parse_args()
    chosen = [cell for cell in cells() if not call.only or {cell.experiment, name(cell)} & set(call.only)]
    began, bad = time.monotonic(), 0
    rows: list[str] = []
    with ThreadPoolExecutor(call.jobs) as pool:
        tries = {cell: [pool.submit(run, cell, call.out) for _ in range(call.n)] for cell in chosen}
        for cell, futures in tries.items():
            outcomes = [future.result() for future in futures]
            rows.append(row(cell, outcomes))
            bad += sum(not outcome.good for outcome in outcomes)
    if call.markdown:
        head = "| experiment | defect | expected | as expected | median |\n|---|---|---|---|---|\n"
        call.markdown.write_text(head + "\n".join(rows) + "\n")
    minutes = (time.monotonic() - began) / 60
    print(f"{len(rows)} cells, {call.n} runs each, {bad} runs not as expected, {minutes:.1f} minutes")
    return 0 if rows and not bad else 1


if __name__ == "__main__":
    sys.exit(main())
