"""One run of the reference trainer with four ranks and no fault, watched from outside; made once for all sections."""

from __future__ import annotations

import os
import subprocess
import time
from functools import cache
from pathlib import Path
from typing import NamedTuple

from .place import ROOT, Place, chaos, journal
from .processes import BenchError, command_line, cpu, descendants, ended, memory, pss, started

EXPERIMENT = ROOT / "experiments/control.yaml"
STEPS = 400
LIMIT = 100  # seconds
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


class Watched(NamedTuple):
    """A run of ours, from its start to its end."""

    samples: tuple[Sample, ...]
    peak: float  # MiB of the runner's process, with what it does after the run


def trained(place: Place) -> tuple[Path, Watched]:
    """Its journal, and how it looked. Raises BenchError, each time, when it did not get to its end."""
    found = _trained(place)
    if isinstance(found, BenchError):
        raise found
    return found


@cache
def _trained(place: Place) -> tuple[Path, Watched] | BenchError:
    try:
        return _train(place)
    except BenchError as error:
        return error


def _train(place: Place) -> tuple[Path, Watched]:
    folder = place.scratch("trainer")
    out = ("--out", str(folder / "runs"), *place.options)
    command = chaos("run", str(EXPERIMENT), "--set", f"steps={STEPS}", *out)
    with started(command, folder=folder) as process:
        seen = watch(process)
    return journal(folder), seen


def watch(process: subprocess.Popen[bytes]) -> Watched:
    """Look at a run of ours until it ends."""
    samples: list[Sample] = []
    deadline = time.monotonic() + LIMIT
    while not ended(process.pid, EVERY):
        if time.monotonic() > deadline:
            raise BenchError(f"a run took more than {LIMIT} s")
        samples.append(_look(process.pid, with_pss=len(samples) % PSS_EVERY == 0))
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return Watched(tuple(samples), usage.ru_maxrss / 1024)


def _look(runner: int, with_pss: bool) -> Sample:
    below = descendants(runner)
    helpers = [pid for pid in below if _is_helper(pid)]
    members = [pid for pid in below if pid not in helpers]
    return Sample(
        wall=time.time(),
        runner_cpu=cpu(runner),
        helper_cpu=sum(map(cpu, helpers)),
        runner=memory(runner),
        runner_peak=memory(runner, "VmHWM"),
        trainer=pss(members) if with_pss and members else None,
    )


def _is_helper(pid: int) -> bool:
    """Whether this is the supervisor; a dead process has no command line, and is one of the target's."""
    return any(word.endswith("drivers/process/init.py") for word in command_line(pid))
