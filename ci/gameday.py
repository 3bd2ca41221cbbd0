"""A game day that is killed twice ends with a complete report, no fault left, and nothing run twice.

`python -m ci.gameday [-n N] [--seed N] [--out DIR]`

N experiments, drawn over the reference trainer and the serving stack, begin by a schedule at the next full minute. The
process of the game day is killed (SIGKILL) while an experiment runs, started again, killed between two experiments,
started again. A second day is aborted from another terminal while a fault stands. Exit code 0 when everything held; the
experiments themselves may come out as they will.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from chaos.archive import NAME, Archive
from chaos.gameday.records import DayState, DayStory
from chaos.gameday.store import Store
from chaos.gameday.story import report
from chaos.guardian import NAME as DEBTS
from chaos.guardian import Ledger
from chaos.history import Event
from chaos.journal import read
from chaos.registry import installed
from ci.traces import Place, adopt, await_no_process, end_descendants

ROOT = Path(__file__).parents[1]
WITHIN = 5.0  # seconds after which nothing may be left
HEEDED = 0.25  # seconds from an abort to the signal that the experiment heeds
PATIENCE = 120.0  # seconds for the fault of the day that is aborted
SOON = 5.0  # seconds that are needed to begin waiting for the next minute
EXPERIMENTS = {
    "faulty-gpu": ["kill_worker.yaml"],
    "software-bug": ["serving/engine_dead_health_green.yaml", "kill_at_first_save.yaml"],
    "network": ["packet_loss.yaml", "serving/router_partitioned.yaml"],
    "host-maintenance": ["serving/rolling_restart_no_loss.yaml"],
    "hbm3-memory": ["out_of_memory.yaml"],
    "dependency": ["serving/cache_stampede.yaml"],
}
CHECKED = (
    "one day, begun by its schedule within 2 s, ended, resumed after each kill; an experiment outlived the game day",
    "one attempt and one run a turn, each journal with its end, never two at the same time",
    "every fault that landed was healed, nothing is owed outside a lab",
    "no process, mount, link, control group, loop device or file in shared memory is left",
    "both reports have every turn with a link to its own report, tell of the kills, and need no network",
    "every run is in the results store",
    "an abort is heeded within 250 ms, what ran is healed, nothing follows",
)
PLAN = """\
title: A game day that is killed twice
schedule: {{cron: "{minute} {hour} * * *", timezone: UTC}}
draw:
  count: {count}
  mix: {{faulty-gpu: 3, software-bug: 3, network: 2, host-maintenance: 2, hbm3-memory: 1, dependency: 1, chassis: 1}}
  map:
{map}
  arrivals: poisson
  rate: 7.8/d
  accelerate: 4000
  seed: {seed}
interrupted: leave
announce: [{{file: announced.log}}]
"""


class Kill(NamedTuple):
    """When the game day is killed: a while after it has told that line of the turn."""

    word: str  # started, ended
    turn: int
    after: float

    def __str__(self) -> str:
        where = f"{self.after:.1f} s into experiment {self.turn}" if self.after else f"after experiment {self.turn}"
        return f"SIGKILL {where}"


def main() -> int:
    """One game day, with kills."""
    call = _parser().parse_args()
    dice = random.Random(call.seed)
    out = (call.out / time.strftime("%Y%m%d-%H%M%S")).resolve()
    out.mkdir(parents=True)
    adopt()
    before = Place.now()
    start = _next_minute()
    plan = out / "gameday.yaml"
    plan.write_text(_plan(start, call.n, call.seed))
    middle = max(2, call.n // 3)
    kills = [
        Kill("started", dice.randint(2, middle), dice.uniform(0.5, 6.0)),
        Kill("ended", dice.randint(middle + 1, call.n - 2), 0.0),
    ]
    code = _day(out, plan, kills)
    left = await_no_process(time.monotonic() + WITHIN)
    end_descendants()
    wrong = [*left, *_check(out, start, call.n, len(kills)), *_code(code), *_abort(out, dice.uniform(0.0, 3.0))]
    wrong += [*await_no_process(time.monotonic() + WITHIN), *before.added(Place.now())]
    end_descendants()
    for line in wrong:
        print(f"WRONG {line}")
    print("\n".join(f"checked: {line}" for line in CHECKED) if not wrong else f"{len(wrong)} things are wrong")
    return int(bool(wrong))


def _next_minute() -> datetime:
    return (datetime.now(UTC) + timedelta(seconds=60 + SOON)).replace(second=0, microsecond=0)


def _plan(start: datetime, count: int, seed: int) -> str:
    lines = (
        f"    {category}: [{', '.join(str(ROOT / 'experiments' / name) for name in names)}]"
        for category, names in EXPERIMENTS.items()
    )
    return PLAN.format(minute=start.minute, hour=start.hour, count=count, seed=seed, map="\n".join(lines))


def _day(out: Path, plan: Path, kills: Sequence[Kill]) -> int:
    """The game day, killed and started again as often as asked for; the exit code of the last process."""
    for kill in kills:
        process = _process(out, plan)
        for line in _lines(process):
            words = line.split()
            if words[1:2] == [str(kill.turn)] and kill.word in words[3:4]:
                time.sleep(kill.after)
                process.kill()
                print(f"{time.strftime('%H:%M:%S')} {kill}", flush=True)
        if process.wait() != -signal.SIGKILL:
            return process.returncode
    last = _process(out, plan)
    for _ in _lines(last):
        pass
    return last.wait()


def _process(out: Path, plan: Path, how: str = "--once") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*_command("run", out, plan), how, "--out", str(out / "runs")], cwd=ROOT, env=_env(out), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True, preexec_fn=_heeding,
    )  # fmt: skip


def _command(what: str, out: Path, plan: Path) -> list[str]:
    return [sys.executable, "-m", "chaos", "gameday", what, str(plan), "--state", str(_state(out, plan))]


def _state(out: Path, plan: Path) -> Path:
    return out / f"{plan.stem}.sqlite"


def _env(out: Path) -> dict[str, str]:
    return {**os.environ, "XDG_STATE_HOME": str(out)}


def _heeding() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _lines(process: subprocess.Popen[str]) -> Iterator[str]:
    assert process.stdout is not None
    for line in process.stdout:
        print(f"  {line}", end="", flush=True)
        yield line


def _abort(out: Path, after: float) -> Iterator[str]:
    """A day of its own that is aborted from another terminal while a fault stands, or soon after."""
    plan = out / "aborted.yaml"
    experiments = [str(ROOT / "experiments" / name) for name in ("freeze_worker.yaml", "kill_worker.yaml")]
    plan.write_text(f"title: A game day that is aborted\nexperiments: {experiments}\n")
    process = _process(out, plan, "--now")
    for line in _lines(process):
        if "1 freeze_worker started" in line:
            journal = _await_fault(out)
            time.sleep(after)
            subprocess.run(_command("abort", out, plan), cwd=ROOT, check=True, env=_env(out))
    code = process.wait()
    with Store(_state(out, plan)) as store:
        story = store.story(1)
    asked = next(line.at for line in story.lines if line.kind == "order.abort")
    events = [*read(journal)]
    heeded = next((event.wall - asked for event in events if event.kind == "run.interrupted"), None)
    shown = "never" if heeded is None else f"{heeded * 1000:.0f} ms"
    print(f"aborted: heeded after {shown}, over after {events[-1].wall - asked:.1f} s, exit code {code}")
    if heeded is None or heeded > HEEDED:
        yield f"an abort was heeded after {shown}, allowed are {HEEDED * 1000:.0f} ms"
    if story.day.state is not DayState.ABORTED or len(story.attempts) != 1 or events[-1].kind != "run.ended":
        yield f"the aborted day is {story.day.state.value}, with {len(story.attempts)} attempts"
    if stands := _standing(events):
        yield f"after the abort: not healed: {', '.join(stands)}"


def _await_fault(out: Path) -> Path:
    """The journal of the one run of the aborted day, once its fault has landed."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        for journal in out.glob("runs/*-aborted-*/*/2*/journal.jsonl"):
            if b'"fault.landed"' in journal.read_bytes():
                return journal
        time.sleep(0.05)
    raise SystemExit(f"no fault landed within {PATIENCE:g} s")


def _code(code: int) -> list[str]:
    return [] if code in (0, 1, 3) else [f"the game day ended with exit code {code}"]


def _check(out: Path, start: datetime, count: int, kills: int) -> Iterator[str]:
    with Store(out / "gameday.sqlite") as store:
        days = store.days()
        story = store.story(days[-1].id) if days else None
    if story is None or len(days) != 1:
        yield f"{len(days)} days were begun, not one"
        return
    print(_table(story))
    if abs(story.day.started - start.timestamp()) > 2:
        yield f"it began {story.day.started - start.timestamp():.1f} s from its time"
    if story.day.state is not DayState.ENDED or len(story.day.agenda.turns) != count:
        yield f"the day is {story.day.state.value} ({story.day.why}), {len(story.day.agenda.turns)} experiments"
    if sum(line.kind == "day.resumed" for line in story.lines) != kills:
        yield f"it was not killed {kills} times"
    if not any(attempt.orphaned for attempt in story.attempts):
        yield "no experiment ran while the game day was down"
    yield from _runs(out, story, count)
    yield from _report(out, story, count)


def _runs(out: Path, story: DayStory, count: int) -> Iterator[str]:
    """Each turn one journal, whole and healed, and never two at a time."""
    found = sorted(Path(story.day.folder).glob("*/*/journal.jsonl"))
    journals = [path for path in found if not path.parent.is_symlink()]  # beside `latest`
    per_turn = Counter(path.parents[1].name for path in journals)
    if len(story.attempts) != count or len(per_turn) != count or set(per_turn.values()) != {1}:
        yield f"{len(story.attempts)} attempts and {len(journals)} runs of {len(per_turn)} turns, not one a turn"
    spans = []
    for path in journals:
        events = [*read(path)]
        spans.append((events[0].wall, events[-1].wall, path.parent.name))
        if events[-1].kind != "run.ended":
            yield f"{path}: its journal has no end"
        if stands := _standing(events):
            yield f"{path}: not healed: {', '.join(stands)}"
        if (path.parent / DEBTS).exists():
            ledger = Ledger(str(path.parent))
            yield from (f"{path.parent}: owes {debt['what']}" for debt in ledger.owed())
            ledger.close()
    spans.sort()
    for (_, end, one), (begin, _, other) in pairwise(spans):
        if begin < end:
            yield f"{one} and {other} ran at the same time"
    with Archive(out / "runs" / NAME) as archive:
        missing = {path.parent.name for path in journals} - archive.known()
        if missing:
            yield f"the results store lacks {', '.join(sorted(missing))}"


def _standing(events: Sequence[Event]) -> list[str]:
    """The faults that landed and were not healed; one that was over at once needs no heal."""
    landed = Counter(
        e.source for e in events if e.kind == "fault.landed" and not installed().fault(str(e.get("kind"))).instant
    )
    healed = Counter(e.source for e in events if e.kind == "fault.healed")
    return sorted(landed - healed)


def _report(out: Path, story: DayStory, count: int) -> Iterator[str]:
    folder = Path(story.day.folder)
    for name in ("report.html", "report.md"):
        page = folder / name
        if not page.exists():
            yield f"{page} is missing"
            continue
        text = page.read_text()
        parts = report(story).parts
        missing = [part.label for part in parts if not part.link or part.link not in text or part.name not in text]
        if missing or len(parts) != count:
            yield f"{name} lacks {', '.join(missing)}"
        if "was cut off and started again twice" not in text or "outlived the game day" not in text:
            yield f"{name} does not tell that the game day was killed"
        if "http://" in text or "https://" in text:
            yield f"{name} needs the network"


def _table(story: DayStory) -> str:
    rows = [
        f"  {part.number:3} {part.name:32} {part.category:17} {part.outcome:13} {part.seconds or 0:5.1f} s"
        f"  {'judged by its journal' if part.orphaned else ''}"
        for part in report(story).parts
    ]
    return "\n".join(rows)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="gameday", description=__doc__)
    parser.add_argument("-n", type=int, default=12, help="experiments (default 12, at least 5)")
    parser.add_argument("--seed", type=int, default=7, help="of the draw and of the kills (default 7)")
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / "gameday", help="where the day's files go")
    return parser


if __name__ == "__main__":
    sys.exit(main())
