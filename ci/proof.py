"""Every experiment on the correct target and on each of its defects: the proof that the harness can turn red.

`python -m ci.proof [-n N] [--jobs J] [--only EXPERIMENT] [--results FILE] [--markdown FILE]`. Exit code 0 when every
cell is as `ci/proof.yaml` says, each time. Ctrl-C (or SIGTERM) ends what runs, healed, starts nothing more, and shows
the table of what was seen until then; exit code 130.

With `--results FILE` a proof may take several sittings: what it says of a cell on this very build (harness, target,
experiment and pinned libraries) counts, and only what is missing to N runs is run. `-n 0` only shows what it says.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import NamedTuple

import yaml

from chaos.build import build_of
from chaos.errors import Exit
from chaos.units import counted

ROOT = Path(__file__).parents[1]
TABLE = ROOT / "ci" / "proof.yaml"


class Cell(NamedTuple):
    """One experiment on one variant of its target; `expected` is the check that must fail, None for all green.

    The variant is a defect of the target, or another of its settings (`library=guarded`); None: the target as it is.
    """

    experiment: str
    defect: str | None
    expected: str | None

    @property
    def settings(self) -> list[str]:
        """The variant, as arguments of `chaos run`."""
        if self.defect is None:
            return []
        return ["--set", self.defect if "=" in self.defect else f"defect={self.defect}"]


class Outcome(NamedTuple):
    """What one run of a cell said. `cell` is its name as `--only` takes it."""

    cell: str
    good: bool
    said: str
    seconds: float
    folder: str
    build: str = ""  # of all that was run


def cells(table: Path = TABLE) -> Iterator[Cell]:
    """The table, the target as it is first.

    `as-is: CHECK` says that this must turn red as well: a library whose bug is still there; `pass`, that a variant must
    be green.
    """
    for experiment, variants in yaml.safe_load(table.read_text()).items():
        expected: dict[str | None, str | None] = {None: None}
        for variant, check in (variants or {}).items():
            expected[None if variant == "as-is" else variant] = None if check == "pass" else check
        for variant, check in expected.items():
            yield Cell(experiment, variant, check)


def judge(cell: Cell, code: int, verdict: dict[str, object] | None) -> tuple[bool, str]:
    """Whether a run says what the table says, and what it said."""
    checks = verdict.get("checks", []) if verdict else []
    assert isinstance(checks, list)
    failing = [c["name"] for c in checks if c["verdict"]["outcome"] == "fail"]
    said = ", ".join(failing) if failing else {0: "pass", 3: "inconclusive"}.get(code, f"exit {code}")
    if cell.expected is None:
        return code == 0, said
    return code == 1 and cell.expected in failing, said


class Stopped(Exception):
    """Nothing is to be run any more, or what ran was ended."""


class Children:
    """The runs of this moment, each in a session of its own: Ctrl-C at a terminal is for us, and they are told once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._alive: set[subprocess.Popen[str]] = set()
        self._closed = False

    def run(self, command: Sequence[str]) -> tuple[int, str]:
        """Exit code and standard error; raises Stopped where it was not to begin, or not to go on."""
        with self._lock:
            if self._closed:
                raise Stopped
            child = subprocess.Popen(
                command,
                cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True,
            )  # fmt: skip
            self._alive.add(child)
        _, said = child.communicate()
        with self._lock:
            self._alive.discard(child)
            if self._closed:
                raise Stopped
        return child.returncode, said

    def end(self) -> None:
        """Ask all to heal and end; none begins after this."""
        with self._lock:
            self._closed = True
            for child in self._alive:
                child.terminate()


def command(cell: Cell, out: Path) -> list[str]:
    """What runs a cell."""
    words = [sys.executable, "-m", "chaos", "run", f"experiments/{cell.experiment}.yaml", "-q", "--out", str(out)]
    return words + cell.settings


def build(cell: Cell) -> str:
    """A digest of all that a run of it consists of: with another one it is another proof."""
    file = ROOT / "experiments" / f"{cell.experiment}.yaml"
    target = os.path.relpath(file.parent / str(yaml.safe_load(file.read_text())["target"]), ROOT)
    package = Path(target).parts[:2]  # targets that are alike share what is beside them
    return _digest("chaos", str(Path(*package))) + _digest(str(file.relative_to(ROOT)))


@cache
def _digest(*sources: str) -> str:
    return build_of(ROOT / "constraints.txt", sources).sources[:8]


def run(cell: Cell, out: Path, children: Children) -> Outcome:
    """Run one cell once, in a new folder of its own below `out`."""
    out.mkdir(parents=True, exist_ok=True)
    out = Path(tempfile.mkdtemp(prefix=f"{Path(cell.experiment).name}-{cell.defect or 'correct'}-", dir=out))
    began = time.monotonic()
    code, complaint = children.run(command(cell, out))
    seconds = time.monotonic() - began
    folder = next((p for p in out.iterdir() if p.is_dir() and not p.is_symlink()), None)
    path = folder / "verdict.json" if folder else None
    verdict = json.loads(path.read_text()) if path and path.exists() else None
    good, said = judge(cell, code, verdict)
    if verdict is None and complaint:
        said += f": {complaint.strip().splitlines()[-1][:100]}"
    return Outcome(name(cell), good, said, seconds, str(folder))


def name(cell: Cell) -> str:
    """As `--only` takes it."""
    return f"{cell.experiment}/{cell.defect or 'correct'}"


def told(cell: Cell, outcome: Outcome) -> None:
    """Print what one run said."""
    expected = f"fail: {cell.expected}" if cell.expected else "pass"
    mark = "ok " if outcome.good else "BAD"
    print(f"{mark} {cell.experiment:45} {cell.defect or '-':25} {expected:35} {outcome.seconds:5.1f}s", flush=True)
    if not outcome.good:
        print(f"      said {outcome.said}; see {outcome.folder}", flush=True)


def table(outcomes: list[Outcome]) -> str:
    """One row an experiment: how often the correct target passed, and how often each defect was caught by its check."""
    seen: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        seen.setdefault(outcome.cell, []).append(outcome)
    rows: dict[str, list[str]] = {}
    spent: dict[str, list[float]] = {}
    for cell in cells():
        if runs := seen.get(name(cell), []):
            count = f"{sum(o.good for o in runs)}/{len(runs)}"
            said = f"`{cell.defect}` → {cell.expected} {count}" if cell.defect else count
            rows.setdefault(cell.experiment, []).append(said)
            spent.setdefault(cell.experiment, []).extend(o.seconds for o in runs)
    lines = ["| experiment | correct | defects, and the check that caught them | median |", "|---|---|---|---|"]
    for experiment, counts in rows.items():
        correct = counts.pop(0) if not counts[0].startswith("`") else "–"
        median = statistics.median(spent[experiment])
        lines.append(f"| {experiment} | {correct} | {'; '.join(counts) or '–'} | {median:.0f} s |")
    return "\n".join(lines) + "\n"


def remembered(path: Path | None, builds: Mapping[str, str]) -> list[Outcome]:
    """What earlier calls wrote there of these cells, each on its build."""
    if path is None or not path.exists():
        return []
    found = [Outcome(*json.loads(line)) for line in path.read_text().splitlines()]
    return [outcome for outcome in found if outcome.build and outcome.build == builds.get(outcome.cell)]


def missing(chosen: Sequence[Cell], seen: Sequence[Outcome], runs: int) -> Iterator[Cell]:
    """What is to be run until each cell has been run so often: once all of them, then all once more."""
    done = Counter(outcome.cell for outcome in seen)
    return (cell for number in range(runs) for cell in chosen if done[name(cell)] <= number)


def run_all(chosen: Sequence[Cell], out: Path, jobs: int, take: Callable[[Cell, Outcome], None]) -> bool:
    """Run each and hand on what it said, in order; whether Ctrl-C came before the last."""
    children = Children()
    with ThreadPoolExecutor(jobs) as pool:
        waiting = deque((cell, pool.submit(run, cell, out, children)) for cell in chosen)
        try:
            while waiting:
                outcome = waiting[0][1].result()
                take(waiting.popleft()[0], outcome)
        except KeyboardInterrupt:
            children.end()
            pool.shutdown(cancel_futures=True)  # waits for those that heal
            for cell, future in waiting:  # one after the first may have been quicker
                if not future.cancelled() and future.exception() is None:
                    take(cell, future.result())
            return True
    return False


def main() -> int:
    """Run the table, once after the other, and print it run by run."""
    parser = argparse.ArgumentParser(prog="proof", description=__doc__)
    parser.add_argument("-n", type=int, default=1, help="runs of each cell, with those on record (default 1)")
    parser.add_argument("--jobs", type=int, default=1, help="runs at the same time (default 1)")
    parser.add_argument("--only", action="append", help="only this experiment, or experiment/defect; repeatable")
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / "proof", help="where the runs' folders go")
    parser.add_argument(
        "--results", type=Path, help="add what each run said to this file; those of this build that are in it count"
    )
    parser.add_argument("--markdown", type=Path, help="also write the table there")
    call = parser.parse_args()
    chosen = [cell for cell in cells() if not call.only or {cell.experiment, name(cell)} & set(call.only)]
    began, builds = time.monotonic(), {name(cell): build(cell) for cell in chosen}
    outcomes = remembered(call.results, builds)
    earlier = len(outcomes)

    def take(cell: Cell, outcome: Outcome) -> None:
        outcome = outcome._replace(build=builds[outcome.cell])
        outcomes.append(outcome)
        told(cell, outcome)
        if call.results:
            with call.results.open("a") as file:
                file.write(json.dumps(outcome) + "\n")

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # as `nohup` has it
            signal.signal(number, signal.default_int_handler)
    stopped = run_all([*missing(chosen, outcomes, call.n)], call.out, call.jobs, take)
    if call.markdown:
        call.markdown.write_text(table(outcomes))
    if stopped:
        print(table(outcomes), end="")
    minutes, bad = (time.monotonic() - began) / 60, sum(not o.good for o in outcomes)
    before = f" and {earlier} before" if earlier else ""
    new = f"{counted(len(outcomes) - earlier, 'run')} in {minutes:.1f} minutes{before}"
    print(f"{counted(len({o.cell for o in outcomes}), 'cell')}, {new}; {counted(bad, 'run')} not as expected")
    return Exit.INTERRUPTED if stopped else 0 if outcomes and not bad else 1


if __name__ == "__main__":
    sys.exit(main())
