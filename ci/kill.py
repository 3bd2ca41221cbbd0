"""A harness that is killed leaves nothing: kill `chaos run` at random moments, look at what is left, judge its record.

`python -m ci.kill [-n N] [--jobs J] [--experiment FILE] [--signal KILL|QUIT] [--no-lab] [--seed N]`

KILL hits the process of the harness alone, which can do nothing about it: within 2 s the kernel must have ended all
that it started. QUIT hits its whole process group, as Ctrl-\\ does: it must heal, end by itself, and leave as little.
Exit code 0 when every kill was clean.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import select
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from chaos.errors import ChaosError, Exit
from chaos.journal import read
from ci.traces import Place, await_no_namespace, await_no_process, born, end_descendants, stand_apart

ROOT = Path(__file__).parents[1]
WITHIN = 2.0  # seconds after which nothing may be left
BY_ITSELF = 30.0  # seconds that a harness may take to heal and end when it is asked to

# What the last of these events says about where a run was.
PHASES = {
    "run.started": "starting",
    "target.ready": "steady state",
    "method.started": "before the fault",
    "fault.injecting": "injecting",
    "fault.landed": "fault standing",
    "fault.healed": "after the fault",
    "final.started": "stopping",
    "run.ended": "judging",
}


class Attempt(NamedTuple):
    """One start of a command that writes its run below `out`; without a moment it is left to end by itself."""

    number: int
    command: tuple[str, ...]
    out: Path
    moment: float | None
    signal: signal.Signals = signal.SIGKILL


class Outcome(NamedTuple):
    """What one attempt left; `wrong` is empty when it was clean."""

    number: int
    moment: float  # seconds from the start to the signal, or to the end
    phase: str  # "over" when the run ended before its moment came
    events: int
    code: int  # of the command
    judged: int | None  # exit code of `chaos judge`; None where no folder was made yet
    took: float  # seconds from the signal to the end of the harness
    ended: float  # seconds from there until no process was left
    cleaned: float  # and until the kernel had freed all namespaces, too
    wrong: tuple[str, ...]

    def __str__(self) -> str:
        said = "nothing to judge" if self.judged is None else f"judged {self.judged}"
        left = "; ".join(self.wrong) or "nothing left"
        return (
            f"{self.number:4} at {self.moment:7.3f} s  {self.phase:18} {self.events:6} events  {said:17}"
            f"gone after {self.took:.3f} + {self.ended:.3f} s, clean after {self.cleaned:.3f} s  {left}"
        )


def attempt(task: Attempt) -> Outcome:
    """Start, signal, look. To be called by a process that stands apart (`ci.traces`)."""
    temporary = task.out / "tmp"
    temporary.mkdir(parents=True)
    before = Place.now(temporary)
    began = time.monotonic()
    harness = subprocess.Popen(
        task.command, cwd=ROOT, start_new_session=True, preexec_fn=born,
        env={**os.environ, "TMPDIR": str(temporary)}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        done = _ends_within(harness, task.moment)
        moment = time.monotonic() - began
        wrong = [] if done else _hit(harness, task.signal)
    finally:
        harness.kill()  # does nothing when it has ended
        code = harness.wait()
    gone = time.monotonic()
    wrong += await_no_process(gone + WITHIN)
    ended = time.monotonic() - gone
    wrong += await_no_namespace(gone + WITHIN)
    cleaned = time.monotonic() - gone
    end_descendants()
    wrong += before.added(Place.now(temporary))
    recorded = Record.below(task.out)
    wrong += recorded.wrong
    if "run.interrupted" in recorded.kinds and code != Exit.INTERRUPTED:
        wrong.append(f"ended with exit code {code}")
    if not wrong and task.moment is not None:
        shutil.rmtree(task.out)
    where = "over" if done else recorded.phase
    took = gone - began - moment
    return Outcome(
        task.number, moment, where, len(recorded.kinds), code, recorded.judged, took, ended, cleaned,
        tuple(wrong),
    )  # fmt: skip


def _hit(harness: subprocess.Popen[bytes], number: signal.Signals) -> list[str]:
    """KILL the harness alone, or ask all of its group and give it time to end."""
    if number == signal.SIGKILL:
        harness.kill()
        return []
    os.killpg(harness.pid, number)
    return [] if _ends_within(harness, BY_ITSELF) else [f"did not end within {BY_ITSELF:g} s of the signal"]


class Record(NamedTuple):
    """What the journal of a run says, and what `chaos judge` says of it."""

    kinds: tuple[str, ...]
    judged: int | None
    wrong: tuple[str, ...]

    @classmethod
    def below(cls, out: Path) -> Record:
        """Read and judge the one run in a folder of runs."""
        runs = [entry.parent for entry in out.glob("*/contract.json")] or [
            entry for entry in out.iterdir() if entry.is_dir() and entry.name != "tmp"
        ]
        if not runs:
            return cls((), None, ())
        journal = runs[0] / "journal.jsonl"
        kinds, wrong = _read(journal)
        command = [sys.executable, "-m", "chaos", "judge", str(runs[0])]
        judged = subprocess.run(command, cwd=ROOT, capture_output=True, check=False).returncode
        if judged not in expected(kinds):
            wrong += (f"chaos judge says {judged}",)
        return cls(kinds, judged, wrong)

    @property
    def phase(self) -> str:
        """Where the run was when its record ended."""
        return phase(self.kinds)


def phase(kinds: Iterable[str]) -> str:
    """Where a run with these events was at their end, or when it was interrupted."""
    known = [PHASES[kind] for kind in takewhile(lambda kind: kind != "run.interrupted", kinds) if kind in PHASES]
    return known[-1] if known else "before the journal"


def expected(kinds: Sequence[str]) -> tuple[int, ...]:
    """What `chaos judge` may say of such a record: nothing is proved before the end is on record."""
    if "run.interrupted" in kinds:
        return (Exit.INTERRUPTED,)
    if "run.ended" in kinds:
        return (Exit.PASS, Exit.FAIL, Exit.INCONCLUSIVE)
    return (Exit.INCONCLUSIVE,) if kinds else (Exit.USAGE, Exit.INCONCLUSIVE)


def _read(journal: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The kinds of all events, and a complaint unless they are as many as the lines that were written to their end."""
    if not journal.exists():
        return (), ()
    lines = journal.read_bytes().count(b"\n")
    try:
        kinds = tuple(event.kind for event in read(journal))
    except ChaosError as error:
        return (), (str(error),)
    return kinds, (f"{journal}: {lines} lines, {len(kinds)} events",) if lines != len(kinds) else ()


def _ends_within(process: subprocess.Popen[bytes], seconds: float | None) -> bool:
    poll = select.poll()
    pidfd = os.pidfd_open(process.pid)
    try:
        poll.register(pidfd, select.POLLIN)
        return bool(poll.poll(None if seconds is None else 1000 * seconds))
    finally:
        os.close(pidfd)


def summary(outcomes: Sequence[Outcome]) -> str:
    """Counts, phases, how long it took to be clean."""
    clean = [outcome for outcome in outcomes if not outcome.wrong]
    phases = Counter(outcome.phase for outcome in outcomes)
    order = ["before the journal", *PHASES.values(), "over"]
    return "\n".join(
        (
            f"{len(clean)} of {len(outcomes)} clean",
            "  where: " + ", ".join(f"{phases[name]} {name}" for name in order if phases[name]),
            f"  the harness ended after: at most {max(outcome.took for outcome in outcomes):.3f} s",
            "  no process after: " + _spread([outcome.ended for outcome in outcomes]),
            "  no namespace after: " + _spread([outcome.cleaned for outcome in outcomes]),
            "  judged: " + ", ".join(f"{n} × {code}" for code, n in Counter(str(o.judged) for o in outcomes).items()),
        )
    )


def _spread(seconds: Sequence[float]) -> str:
    return f"median {statistics.median(seconds):.3f} s, slowest {max(seconds):.3f} s (allowed {WITHIN:g} s)"


def main() -> int:
    """Measure a run, then kill as many as asked for."""
    call = _parser().parse_args()
    out = call.out / time.strftime("%Y%m%d-%H%M%S")
    run = [sys.executable, "-m", "chaos", "run", str(call.experiment), "-q", *(["--no-lab"] if call.no_lab else [])]

    def task(number: int, moment: float | None) -> Attempt:
        folder = out / f"{number:03}"
        return Attempt(number, (*run, "--out", str(folder)), folder, moment, signal.Signals[f"SIG{call.signal}"])

    outcomes = []
    with multiprocessing.get_context("spawn").Pool(call.jobs, initializer=stand_apart) as pool:
        length = call.length
        if not length:
            whole = pool.map(attempt, [task(-number - 1, None) for number in range(call.jobs)], chunksize=1)
            print("\n".join(f"undisturbed: {outcome}" for outcome in whole), flush=True)
            if any(outcome.wrong or not outcome.events for outcome in whole):
                return 1
            length = statistics.median(outcome.moment for outcome in whole)
        dice = random.Random(call.seed)
        tasks = [task(number + 1, dice.uniform(0, length)) for number in range(call.n)]
        print(f"{call.n} × SIG{call.signal} within {length:.1f} s, seed {call.seed}", flush=True)
        for outcome in pool.imap_unordered(attempt, tasks):
            outcomes.append(outcome)
            print(outcome, flush=True)
    print(summary(outcomes))
    (out / "kills.json").write_text(json.dumps([outcome._asdict() for outcome in outcomes], indent=1) + "\n")
    return int(any(outcome.wrong for outcome in outcomes))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="kill", description=__doc__)
    parser.add_argument("-n", type=int, default=100, help="kills (default 100)")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time (default 1)")
    parser.add_argument("--experiment", type=Path, default=Path("experiments/partition_during_checkpoint.yaml"))
    parser.add_argument("--signal", choices=("KILL", "QUIT"), default="KILL")
    parser.add_argument("--no-lab", action="store_true", help="runs without a lab, which exclude each other")
    parser.add_argument("--length", type=float, help="moments up to this many seconds; else a whole run is measured")
    parser.add_argument("--seed", type=int, default=7, help="of the moments (default 7)")
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / "kill", help="folders of runs that were not clean")
    return parser


if __name__ == "__main__":
    sys.exit(main())
