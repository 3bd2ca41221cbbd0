"""A small game day that is killed again and again: at random moments, alone or together with its experiment.

`python -m ci.gameday_kills [-n N] [--seed N]`

Every round is one day of two short experiments. Whatever was killed when, at the end there is one day, whole, with its
report; no experiment ran twice but one that was cut off itself, and never two at the same time. Exit code 0 if so.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from chaos.errors import ChaosError, Exit
from chaos.gameday.children import lives
from chaos.gameday.records import DayState, DayStory
from chaos.gameday.store import Store
from chaos.journal import read

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "tests" / "verdicts" / "target" / "target.yaml"
MOST = 8  # kills of a round; then the day is left alone
LONGEST = 6.0  # seconds between two kills
TO_THE_END = 300.0


class Round(NamedTuple):
    """What was done to one day, and what is wrong about it."""

    kills: int
    together: int  # of those with the experiment
    attempts: int
    wrong: tuple[str, ...]

    def __str__(self) -> str:
        left = "; ".join(self.wrong) or "as it should be"
        return f"{self.kills} kills, {self.together} with the experiment, {self.attempts} attempts: {left}"


def day(place: Path, dice: random.Random) -> Round:
    """One day, killed until it is over or has been killed often enough."""
    _write(place)
    kills = together = 0
    while True:
        process = _start(place)
        patience = dice.uniform(0.2, LONGEST) if kills < MOST else TO_THE_END
        try:
            said, _ = process.communicate(timeout=patience)
            break
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            kills += 1
        if dice.random() < 0.5:
            together += _kill_experiment(place)
    wrong = [*_check(place, together)]
    if process.returncode not in (Exit.PASS, Exit.INCONCLUSIVE):
        wrong.append(f"exit code {process.returncode}: {said[-300:]}")
    with Store(place / "state.sqlite") as store:
        return Round(kills, together, len(store.attempts(1)), tuple(wrong))


def _write(place: Path) -> None:
    (place / "target.yaml").write_text(TARGET.read_text().replace("workdir: ../../..", f"workdir: {ROOT}"))
    when = {"event": {"kind": "step.completed", "nth": 5}}
    step = {"fault": "process.freeze", "members": {"ranks": [1]}, "when": when, "hold": "100ms"}
    for name in "ab":
        text = {"target": "target.yaml", "settings": {"steps": 20}, "method": [step]}
        (place / f"{name}.yaml").write_text(json.dumps(text))
    plan = {"lab": False, "experiments": ["a.yaml", "b.yaml"], "interrupted": "rerun"}
    (place / "day.yaml").write_text(json.dumps(plan))


def _start(place: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "chaos", "gameday", "run", "day.yaml", "--now"]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_STATE_HOME": str(place / "state")}
    return subprocess.Popen(
        [*command, "--state", str(place / "state.sqlite")], cwd=place, env=env, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def _kill_experiment(place: Path) -> int:
    """Kill what runs; how many that were."""
    with suppress(ChaosError), Store(place / "state.sqlite") as store:  # it may not have come to that yet
        for attempt in store.attempts(1):
            if attempt.finding is None and attempt.pid is not None and lives(attempt.pid, attempt.born):
                os.kill(attempt.pid, signal.SIGKILL)
                return 1
    return 0


def _check(place: Path, together: int) -> Iterator[str]:
    with Store(place / "state.sqlite") as store:
        if len(store.days()) != 1:
            yield f"{len(store.days())} days"
        story = store.story(1)
    if story.day.state is not DayState.ENDED:
        yield f"the day is {story.day.state.value}"
    yield from _turns(story, together)
    journals = [path for path in place.glob("runs/*/*/*/journal.jsonl") if not path.parent.is_symlink()]
    if len(journals) > len(story.attempts):
        yield f"{len(journals)} runs of {len(story.attempts)} attempts"
    spans = sorted((events[0].wall, events[-1].wall) for events in ([*read(path)] for path in journals) if events)
    if any(later[0] < earlier[1] for earlier, later in pairwise(spans)):
        yield "two ran at the same time"
    for page in ("report.html", "report.md"):
        if not Path(story.day.folder, page).exists():
            yield f"no {page}"


def _turns(story: DayStory, together: int) -> Iterator[str]:
    cut_off = sum(attempt.interrupted for attempt in story.attempts)
    if cut_off > together:
        yield f"{cut_off} attempts were cut off, {together} were killed"
    for turn in story.day.agenda.turns:
        attempts = [attempt for attempt in story.attempts if attempt.number == turn.number]
        if not attempts or any(attempt.finding is None for attempt in attempts):
            yield f"turn {turn.number} has no end"
        elif any(not attempt.interrupted for attempt in attempts[:-1]):
            yield f"turn {turn.number} ran again though it had not been cut off"
        elif attempts[-1].interrupted and len(attempts) == 1:
            yield f"turn {turn.number} was cut off and not run again"


def main() -> int:
    """As many rounds as asked for."""
    parser = argparse.ArgumentParser(prog="gameday_kills", description=__doc__)
    parser.add_argument("-n", type=int, default=10, help="days (default 10)")
    parser.add_argument("--seed", type=int, default=7, help="of the moments (default 7)")
    call = parser.parse_args()
    dice, rounds = random.Random(call.seed), []
    for number in range(call.n):
        with TemporaryDirectory() as place:
            rounds.append(day(Path(place), dice))
        print(f"{number + 1:4} {rounds[-1]}", flush=True)
    bad = sum(bool(one.wrong) for one in rounds)
    kills, together = (sum(numbers) for numbers in zip(*((one.kills, one.together) for one in rounds), strict=True))
    print(f"{call.n - bad} of {call.n} days as they should be, after {kills} kills, {together} with the experiment")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
