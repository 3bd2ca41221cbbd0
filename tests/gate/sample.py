"""A small repository of its own: a counter that is restarted when it dies, one experiment, a catalogue."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

_COUNTER = """\
import os
import subprocess
import sys
import time
from pathlib import Path

from chaos.inside import emit, hello, point, recovery_path


def count(epoch: int) -> None:
    hello("counter", role="counter", rank=0)
    saved = Path(os.environ["CHAOS_DATA"], "count")
    step = resume(saved) if saved.exists() else 0
    emit("group.formed", epoch=epoch, world=1, step=step)
    while step < 20:
        time.sleep(0.02)
        step += 1
        emit("step.completed", step=step, rank=0, world=1, epoch=epoch, samples=[step])
        point("count.before_save", step=step)
        saved.write_text(str(step))


def resume(saved: Path) -> int:
    return int(saved.read_text())


def supervise() -> None:
    epoch = 1
    while code := subprocess.call([sys.executable, __file__, str(epoch)]):
        with recovery_path("counter.restart"):
            emit("failure.detected", member="counter", reason=f"exit {code}", **{"class": "fail-stop"})
            epoch += 1
    emit("job.completed", step=20)


count(int(sys.argv[1])) if len(sys.argv) > 1 else supervise()
"""
_TARGET = """\
name: counter
driver: process
members:
  - {name: supervisor, role: supervisor, command: [python, counter.py]}
announced:
  - {name: counter, role: counter, rank: 0}
ready: {event: group.formed, within: 10s}
ends: {role: supervisor}
events:
  group.formed: [epoch, world, step]
  step.completed: [step, rank, world, epoch, samples]
  failure.detected: [member, reason, class]
  job.completed: [step]
points:
  count.before_save: [step]
recovery-paths: [counter.restart]
"""
_KILLED = """\
title: A killed counter counts on
target: ../target/target.yaml
method:
  - fault: process.kill
    members: {roles: [counter]}
    when: {point: count.before_save, where: {step: 10}}
budget:
  rpo: {steps: 1}
invariants: [bounded-detection]
"""
_CATALOGUE = """\
targets: [../target/target.yaml]   # the one there is
policy: {runs: 1, build: same}
paths:
  counter:
    # who restarts it
    counter.restart: {experiments: [../experiments/killed.yaml]}
"""
# What the release adds: a branch that only runs after a failure, and nobody thought of an experiment for it.
_OLD = "    return int(saved.read_text())\n"
_NEW = '    with recovery_path("counter.resume"):\n        return int(saved.read_text())\n'


class Sample:
    """The repository, and a shell in it in which `chaos` is this one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "repository"
        for name, text in (
            ("target/counter.py", _COUNTER), ("target/target.yaml", _TARGET),
            ("experiments/killed.yaml", _KILLED), ("ci/recovery_paths.yaml", _CATALOGUE),
            (".gitignore", "runs/\n"),
        ):  # fmt: skip
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        programs = folder / "bin"
        programs.mkdir()
        (programs / "chaos").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m chaos "$@"\n')
        (programs / "chaos").chmod(0o755)
        self._environment = {**os.environ, "PYTHONPATH": str(ROOT), "PATH": f"{programs}:{os.environ['PATH']}"}
        assert self.shell("git init -q").returncode == 0
        self.commit("first release")

    def shell(self, line: str) -> subprocess.CompletedProcess[str]:
        """What a person would type."""
        return subprocess.run(
            ["/bin/sh", "-c", line], cwd=self.folder, env=self._environment, capture_output=True, text=True, timeout=50,
            check=False,
        )  # fmt: skip

    def commit(self, message: str) -> None:
        names = "-c user.name=a -c user.email=a@example.org -c commit.gpgsign=false"
        done = self.shell(f"git add -A && git {names} commit -q -m '{message}'")
        assert done.returncode == 0, done.stderr

    def release(self) -> int:
        """Add the recovery path; its line."""
        program = self.folder / "target/counter.py"
        program.write_text(program.read_text().replace(_OLD, _NEW))
        self.commit("a path that nobody tests")
        return program.read_text().splitlines().index('    with recovery_path("counter.resume"):') + 1


def commands(printed: str) -> list[str]:
    """The commands that are said to open the gate, as they are printed."""
    return re.findall(r"^  (chaos .*)$", printed.partition("To open it:")[2], re.MULTILINE)
