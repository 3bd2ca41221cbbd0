"""One run of the reference trainer with four ranks and no fault, watched from outside; made once for all sections."""

from __future__ import annotations

import subprocess
import time
from functools import cache
from pathlib import Path
from typing import NamedTuple

from .place import ROOT, Place, chaos, journal
from .processes import command_line, cpu, descendants, memory, pss, started

EXPERIMENT = ROOT / "experiments/control.yaml"
STEPS = 400
LIMIT = 120  # seconds
EVERY = 1.0
PSS_EVERY = 5  # samples: reading it walks all page tables


class Sample(NamedTuple):
    """What /proc said at one moment; MiB and seconds."""

    wall: float
    runner_cpu: float
    helper_cpu: float  # the supervisor
    runner: float
    runner_peak: float
    trainer: float | None
    members: int  # processes of the target


class Watched(NamedTuple):
    """A run and how it looked."""

    journal: Path
    samples: tuple[Sample, ...]


@cache
def watched(place: Place) -> Watched:
    """Run it. Raises BenchError when it leaves no journal."""
    folder = place.scratch("trainer")
    out = ("--out", str(folder / "runs"), *place.options)
    command = chaos("run", str(EXPERIMENT), "--set", f"steps={STEPS}", *out)
    with started(command, folder=folder) as process:
        samples = watch(process)
    return Watched(journal(folder), samples)


def watch(process: subprocess.Popen[bytes]) -> tuple[Sample, ...]:
    """Samples of a run of ours until it ends."""
    samples: list[Sample] = []
    began = time.monotonic()
    while process.poll() is None and time.monotonic() - began < LIMIT:
        samples.append(_look(process.pid, with_pss=len(samples) % PSS_EVERY == 0))
        try:
            # Once the target has gone, judging takes a moment only, and it is the peak of memory.
            process.wait(EVERY if samples[-1].members else 0.02)
        except subprocess.TimeoutExpired:
            continue
    return tuple(samples)


def _look(runner: int, with_pss: bool) -> Sample:
    below = descendants(runner)
    members = [pid for pid in below if _is_target(pid)]
    return Sample(
        wall=time.time(),
        runner_cpu=cpu(runner),
        helper_cpu=sum(cpu(pid) for pid in below if pid not in members),
        runner=memory(runner),
        runner_peak=memory(runner, "VmHWM"),
        trainer=pss(members) if with_pss and members else None,
        members=len(members),
    )


def _is_target(pid: int) -> bool:
    return any(word.startswith(("targets.", "tests.bench.members")) for word in command_line(pid))
