"""This project's own gate: runs what `chaos gate` says is not proved of the targets as they are, then asks it again.

`python -m ci.gate [--jobs J]`. What is on record for this very build is not run again. A run that said nothing
(inconclusive) is repeated once. One that failed is an answer: it is asked again only as the catalogue lets some fail,
so often that a flake is told from a failure, and what was seen stays on record. The exit code is that of `chaos gate`.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from textwrap import indent
from typing import Any

from chaos.units import counted

ROOT = Path(__file__).parents[1]
ROUNDS = 2
# What other runs can change without anybody having changed anything; the gate says whether they can, and how many.
OPEN_QUESTIONS = {
    "untested",
    "few",
    "stale",
    "other-build",
    "experiment-changed",
    "inconclusive",
    "failing",
    "flaky",
    "overridden",
    "no-lab",
}


def chaos(*words: str) -> list[str]:
    """The command line, of this checkout."""
    return [sys.executable, "-m", "chaos", *words]


def asked(words: Sequence[str] = ()) -> dict[str, Any]:
    """What the gate says now, as data."""
    with tempfile.TemporaryDirectory() as folder:
        said = Path(folder, "gate.json")
        done = subprocess.run(
            chaos("gate", "-q", "--json", str(said), *words), cwd=ROOT, capture_output=True, text=True, check=False
        )
        if not said.exists():
            sys.exit(f"chaos gate said nothing (exit {done.returncode}): {done.stderr.strip()}")
        decision: dict[str, Any] = json.loads(said.read_text())
    return decision


def wanted(decision: dict[str, Any]) -> list[str]:
    """Experiment files to run, one entry a run, of paths whose question is open; the gate's own shortest list."""
    open_paths = [r for r in decision["rulings"] if r.get("why", {}).get("reason") in OPEN_QUESTIONS]
    useful = {file for ruling in open_paths for file in ruling.get("todo", {}).get("run", ())}
    return [file for file in runs_of(decision["commands"]) if file in useful]


def runs_of(commands: Sequence[str]) -> Iterator[str]:
    """The files of every `chaos run A B --repeat N` in these commands, each N times."""
    parser = argparse.ArgumentParser()
    parser.add_argument("files", nargs="+")
    parser.add_argument("--repeat", type=int, default=1)
    for command in commands:
        for part in command.split(" && "):
            words = shlex.split(part)
            if words[:2] == ["chaos", "run"]:
                call, _ = parser.parse_known_args(words[2:])
                yield from (file for file in call.files for _ in range(call.repeat))


def prove(file: str) -> None:
    """One run, into the store that the gate reads."""
    began = time.monotonic()
    done = subprocess.run(chaos("run", file, "-q"), cwd=ROOT, capture_output=True, text=True, check=False)
    said = told(file, done.returncode, done.stdout + done.stderr, time.monotonic() - began)
    print(said, flush=True)  # at once: others run meanwhile


def told(file: str, code: int, said: str, seconds: float) -> str:
    """A line on a run that passed; of any other one all that it said, and where its folder is."""
    said = said.strip() or "nothing was said"
    head = f"{seconds:5.1f} s  {file:60}"
    if code == 0:
        return f"{head} {said.splitlines()[0][:110]}"
    journal = re.search(r"^ *journal +(\S.*)/journal\.jsonl$", said, re.MULTILINE)
    where = journal[1] if journal else "it has no folder"
    return f"{head} exit code {code}; {where}\n{indent(said, ' ' * 9)}"


def main() -> int:
    """Fill the gaps, then let the gate speak."""
    parser = argparse.ArgumentParser(prog="gate", description=__doc__)
    parser.add_argument("--jobs", type=int, default=2, help="runs at the same time (default 2)")
    call = parser.parse_args()
    for _ in range(ROUNDS):
        files = wanted(asked())
        if not files:
            break
        print(f"{counted(len(files), 'experiment')} to run for the gate", flush=True)
        with ThreadPoolExecutor(call.jobs) as pool:
            list(pool.map(prove, files))
    return subprocess.run(chaos("gate", "--verify"), cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
