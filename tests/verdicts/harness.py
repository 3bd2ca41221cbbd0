"""`chaos` as its users have it: a process with a command line, an exit code and a folder a run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from chaos.errors import JournalError
from chaos.history import Event, History
from chaos.journal import read

TESTS = Path(__file__).parents[1]
TARGET = Path(__file__).with_name("target") / "target.yaml"
NO_LAB = "--no-lab"  # where a case is about the verdict, a lab would only cost time
PLUGINS = {
    "faults": {"mischief.inject": "Inject", "mischief.heal": "Heal", "mischief.long": "Long"},
    "probes": {"mischief.sample": "Sample"},
}


class Run:
    """One `chaos run` that goes on, or has ended."""

    def __init__(self, process: subprocess.Popen[str], out: Path) -> None:
        self.process = process
        self.out = out
        self.lines: list[str] = []

    @property
    def folder(self) -> Path:
        """Of the only run below `out`."""
        (only,) = folders(self.out)
        return only

    @property
    def history(self) -> History:
        """What is recorded by now."""
        try:
            return History(read(self.folder / "journal.jsonl"))
        except (ValueError, JournalError):  # not begun
            return History()

    def until(self, kind: str, nth: int = 1, **where: Any) -> Event:
        """Wait for an event. Every one is on record before its line is shown, so a line is the time to look."""
        assert self.process.stdout is not None
        while len(found := self.history.of(kind, **where)) < nth:
            line = self.process.stdout.readline()
            assert line, f"ended without {kind}: {self.said}"
            self.lines.append(line)
        return found[nth - 1]

    def wait(self) -> int:
        """The exit code, once all is said."""
        assert self.process.stdout is not None
        self.lines += self.process.stdout.readlines()
        return self.process.wait()

    @property
    def said(self) -> str:
        return "".join(self.lines)

    @property
    def checks(self) -> dict[str, str]:
        """Outcome by check, as CI reads them."""
        record = json.loads((self.folder / "verdict.json").read_text())
        return {check["name"]: check["verdict"]["outcome"] for check in record["checks"]}


def folders(out: Path) -> list[Path]:
    """Of the runs below `out`."""
    return [path for path in out.iterdir() if path.is_dir() and not path.is_symlink()] if out.exists() else []


def publish_mischief(place: Path) -> None:
    """A distribution that is installed by being on the path."""
    info = place / "mischief-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mischief\nVersion: 1.0\n")
    points = [
        f"[chaos.{group}]\n" + "".join(f"{kind} = verdicts.mischief:{name}\n" for kind, name in kinds.items())
        for group, kinds in PLUGINS.items()
    ]
    (info / "entry_points.txt").write_text("\n".join(points))


def write(path: Path, method: list[dict[str, Any]], **more: Any) -> Path:
    """An experiment on a target of its own, so that nobody else holds its lock. JSON is YAML."""
    target = path.with_name("target.yaml")
    target.write_text(TARGET.read_text().replace("workdir: ../../..", f"workdir: {TESTS.parent}"))
    keys = {key.replace("_", "-"): value for key, value in more.items()}
    path.write_text(json.dumps({"target": target.name, "method": method, **keys}, indent=1))
    return path


class Chaos:
    """The command line, with the mischief installed."""

    def __init__(self, plugins: Path, place: Path) -> None:
        self.place = place
        self.out = place / "runs"
        self.env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(plugins), str(TESTS), str(TESTS.parent)])}

    def command(self, verb: str, *words: str | Path) -> list[str]:
        return [sys.executable, "-m", "chaos", verb, *map(str, words)]

    def ask(self, verb: str, *words: str | Path) -> subprocess.CompletedProcess[str]:
        """A verb to its end."""
        command = self.command(verb, *words)
        return subprocess.run(command, env=self.env, cwd=self.place, capture_output=True, text=True, check=False)

    @contextmanager
    def running(
        self, method: list[dict[str, Any]], *words: str, before: tuple[str, ...] = (), **more: Any
    ) -> Iterator[Run]:
        """`chaos run` of an experiment; it is killed at the end of the block."""
        experiment = write(self.place / "tiny.yaml", method, **more)
        command = [*before, *self.command("run", experiment, "-v", "--out", self.out, *words)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        where = {"env": self.env, "cwd": self.place, "start_new_session": True}
        with subprocess.Popen(command, text=True, **where, **pipes) as process:  # type: ignore[call-overload]
            try:
                yield Run(process, self.out)
            finally:
                process.kill()

    def run(self, method: list[dict[str, Any]], *words: str, **more: Any) -> tuple[int, Run]:
        """`chaos run` of an experiment to its end."""
        with self.running(method, *words, **more) as run:
            return run.wait(), run


def step(fault: str, at: str = "0s", **more: Any) -> dict[str, Any]:
    """A step of a method."""
    return {"fault": fault, "when": {"at": at}, **more}
