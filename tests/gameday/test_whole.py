"""`chaos gameday` as its users have it: processes that are killed, orders from another terminal, a report."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from verdicts.harness import publish_mischief

from chaos.archive import NAME, Archive
from chaos.cli import main
from chaos.cli.gameday_places import state_of
from chaos.errors import Exit
from chaos.gameday.children import lives
from chaos.gameday.records import DayState, DayStory
from chaos.gameday.store import Store
from chaos.history import History
from chaos.journal import read

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
ROOT = Path(__file__).parents[2]
TINY = ROOT / "tests" / "verdicts" / "target" / "target.yaml"
SOON = 60.0  # seconds for what takes moments on a machine with nothing else to do


class Terminal:
    """Where somebody works with game days: a folder of experiments, a state folder, the command line."""

    def __init__(self, place: Path, capture: pytest.CaptureFixture[str]) -> None:
        self.place, self.plan, self._capture = place, place / "day.yaml", capture
        self.plugins: tuple[Path, ...] = ()
        target = TINY.read_text().replace("workdir: ../../..", f"workdir: {ROOT}")
        for copy in ("", "2"):
            (place / f"target{copy}.yaml").write_text(target)

    def experiment(
        self, name: str, *, steps: int = 20, target: str = "target.yaml", hold: str = "100ms", **fault: Any
    ) -> str:
        step = {**(fault or {"fault": "process.freeze", "members": {"ranks": [1]}}), "hold": hold}
        when = {"event": {"kind": "step.completed", "nth": 5}}
        text = {"target": target, "settings": {"steps": steps}, "method": [{**step, "when": when}]}
        (self.place / f"{name}.yaml").write_text(json.dumps(text))
        return f"{name}.yaml"

    def write(self, *experiments: str, **more: Any) -> None:
        (self.place / "day.yaml").write_text(json.dumps({"lab": False, "experiments": experiments, **more}))

    @contextmanager
    def running(self, *words: str, plan: str = "day.yaml") -> Iterator[subprocess.Popen[str]]:
        """The service; killed at the end of the block."""
        command = [sys.executable, "-m", "chaos", "gameday", "run", plan, *(words or ("--now",))]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (*self.plugins, ROOT)))}
        with subprocess.Popen(
            command, cwd=self.place, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            start_new_session=True,
        ) as process:  # fmt: skip
            try:
                yield process
            finally:
                process.kill()
                assert process.stdout is not None
                process.stdout.read()

    def ask(self, *words: str) -> tuple[int, str]:
        """A command from another terminal."""
        self._capture.readouterr()
        code = main(["gameday", *words])
        return code, "".join(self._capture.readouterr())

    def story(self, day: int = 1) -> DayStory:
        with Store(state_of(self.plan)) as store:
            return store.story(day)

    def journals(self) -> list[Path]:
        found = sorted(self.place.glob("runs/*/*/*/journal.jsonl"))
        return [path for path in found if not path.parent.is_symlink()]

    def history(self, number: int) -> History:
        (path,) = [path for path in self.journals() if path.parents[1].name.startswith(f"{number:02}-")]
        return History(read(path))


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Terminal:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    return Terminal(tmp_path, capsys)


def until(process: subprocess.Popen[str], text: str) -> str:
    """Read what it says until a line has that in it."""
    assert process.stdout is not None
    said = ""
    for line in process.stdout:
        said += line
        if text in line:
            return line
    raise AssertionError(f"ended without {text!r}: {said}")


def wait_for(path: Path, text: str) -> None:
    """Until the file of another process has that in it."""
    deadline = time.monotonic() + SOON
    while not (path.exists() and text in path.read_text()):
        assert time.monotonic() < deadline, f"{path} never had {text}"
        time.sleep(0.01)


def journal_of(terminal: Terminal, turn: str) -> Path:
    """The journal of a turn that has just been started, once it is there."""
    deadline = time.monotonic() + SOON
    while True:
        found = [path for path in terminal.journals() if path.parents[1].name == turn]
        if found:
            return found[0]
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_killed_in_an_experiment_and_started_again_the_day_is_whole(terminal: Terminal) -> None:
    names = [terminal.experiment(name, steps=80 if name == "b" else 20) for name in "abc"]
    terminal.write(*names)
    with terminal.running() as first:
        until(first, "2 b started")
        wait_for(journal_of(terminal, "02-b"), "fault.landed")
        first.kill()
    attempt = terminal.story().attempts[1]
    assert attempt.finding is None
    assert attempt.pid is not None
    assert lives(attempt.pid, attempt.born), "the experiment goes on"
    code, said = terminal.ask("status")
    assert code == 0
    assert "does not run" in said
    assert "1 of 3 experiments ran" in said
    with terminal.running() as second:
        until(second, "2 b still runs")
        until(second, "report runs/")
        assert second.wait(SOON) == Exit.PASS
    story = terminal.story()
    assert story.day.state is DayState.ENDED
    assert [(a.number, a.attempt, a.passed, a.orphaned) for a in story.attempts] == [
        (1, 1, True, False), (2, 1, True, True), (3, 1, True, False)
    ]  # fmt: skip
    assert len(terminal.journals()) == 3
    assert all([*read(path)][-1].kind == "run.ended" for path in terminal.journals())
    for page in ("report.html", "report.md"):
        text = Path(story.day.folder, page).read_text()
        assert all(f"0{n}-{name}/" in text for n, name in enumerate("abc", 1))
        assert "was cut off and started again once" in text
        assert "2 b outlived the game day" in text
    with Archive(terminal.place / "runs" / NAME) as archive:
        assert sorted(run.experiment for run in archive.runs()) == ["a", "b", "c"]


def test_an_experiment_that_was_killed_too_is_run_again_and_that_is_told(terminal: Terminal) -> None:
    terminal.write(terminal.experiment("a", steps=60), interrupted="rerun")
    with terminal.running() as first:
        until(first, "1 a started")
        wait_for(journal_of(terminal, "01-a"), "fault.landed")
        first.kill()
    (attempt,) = terminal.story().attempts
    assert attempt.pid is not None
    os.kill(attempt.pid, signal.SIGKILL)
    with terminal.running() as second:
        until(second, "1 a was cut off")
        until(second, "1 a started again")
        until(second, "report runs/")
        assert second.wait(SOON) == Exit.PASS
    story = terminal.story()
    assert [(a.attempt, a.interrupted, a.passed) for a in story.attempts] == [(1, True, False), (2, False, True)]
    assert "1 a was started twice: the first was cut off" in Path(story.day.folder, "report.md").read_text()


def test_asked_approved_noted_and_aborted_from_another_terminal(terminal: Terminal) -> None:
    names = [terminal.experiment("a", steps=4000, hold="60s"), terminal.experiment("b")]
    terminal.write(*names, approvals={"before": ["start"]}, announce=[{"file": "said.log"}])
    with terminal.running() as service:
        until(service, "`chaos gameday approve`")
        terminal.ask("pause")
        terminal.ask("resume")
        assert "approval asked: start" in terminal.ask("status")[1]
        assert terminal.ask("approve", "--by", "ada")[0] == 0
        until(service, "1 a started")
        assert terminal.ask("approve") == (
            2,
            f"chaos: {state_of(terminal.plan)}: nothing is asked; `chaos gameday status`\n",
        )
        wait_for(journal_of(terminal, "01-a"), "fault.landed")
        assert terminal.ask("note", "the dashboard is red", "--by", "ada")[0] == 0
        assert terminal.ask("abort", "-m", "a real incident", "--by", "bob")[0] == 0
        until(service, "report runs/")
        assert service.wait(SOON) == Exit.INCONCLUSIVE
    story = terminal.story()
    assert story.day.why == "aborted by bob: a real incident"
    assert [skip.number for skip in story.skips] == [2]
    asked = next(line.at for line in story.lines if line.kind == "order.abort")
    interrupted, healed = (terminal.history(1).last(kind) for kind in ("run.interrupted", "fault.healed"))
    assert interrupted is not None
    assert healed is not None, "healed before it ended"
    assert interrupted.wall - asked < 1.0, "within 250 ms where nothing else runs (ci/gameday.py)"
    text = Path(story.day.folder, "report.md").read_text()
    assert "the dashboard is red (ada)" in text
    announced = [line.split()[1] for line in (terminal.place / "said.log").read_text().splitlines()]
    assert announced == [
        "day.started", "approval.asked", "order.pause", "order.resume", "approval.given", "experiment.started",
        "note.taken", "order.abort", "experiment.ended", "experiment.skipped", "day.ended", "report.written",
    ]  # fmt: skip
    assert terminal.ask("abort")[0] == Exit.USAGE, "no day is running"


def test_one_switch_ends_all_that_run_and_what_others_have_left_running(terminal: Terminal) -> None:
    for name, target in (("one", "target.yaml"), ("two", "target2.yaml")):
        terminal.experiment(name, steps=4000, target=target, hold="60s")
        text = {"title": f"day {name}", "lab": False, "experiments": [f"{name}.yaml"]}
        (terminal.place / f"{name}-day.yaml").write_text(json.dumps(text))
    with terminal.running(plan="one-day.yaml") as killed:
        until(killed, "1 one started")
        killed.kill()
    with terminal.running(plan="two-day.yaml") as alive:
        until(alive, "1 two started")
        for name in ("one", "two"):
            wait_for(journal_of(terminal, f"01-{name}"), "run.started")
        code, said = terminal.ask("kill-all")
        assert (code, sorted(said.splitlines())) == (0, ["day one: ended", "day two: ended"])
        assert alive.wait(SOON) == Exit.TERMINATED
    for plan in ("one-day.yaml", "two-day.yaml"):
        with Store(state_of(terminal.place / plan)) as store:
            (attempt,) = store.attempts(1)
            assert not lives(attempt.pid or 0, attempt.born)
    assert terminal.ask("kill-all") == (0, "no game day is running\n")
    with terminal.running(plan="one-day.yaml") as again:
        until(again, "aborted by")
        assert again.wait(SOON) == Exit.INCONCLUSIVE


def test_two_on_one_target_are_refused_even_while_the_first_is_down(terminal: Terminal) -> None:
    terminal.write(terminal.experiment("a", steps=4000, hold="60s"), title="The first")
    (terminal.place / "other.yaml").write_text(terminal.plan.read_text().replace("The first", "The second"))
    with terminal.running() as first:
        until(first, "1 a started")
        with terminal.running() as same:
            until(same, "a game day runs on this state already (pid")
            assert same.wait(SOON) == Exit.USAGE
        first.kill()
    with terminal.running(plan="other.yaml") as second:
        line = until(second, "is in use by game day")
        assert f"“The first” ({terminal.plan}, pid {first.pid})" in line
        assert second.wait(SOON) == Exit.INCONCLUSIVE
    assert terminal.ask("kill-all")[0] == 0


def test_a_heal_that_failed_halts_all_until_somebody_says_that_it_is_undone(terminal: Terminal) -> None:
    terminal.plugins = (terminal.place / "plugins", ROOT / "tests")
    publish_mischief(terminal.place / "plugins")
    terminal.write(terminal.experiment("a", fault="mischief.heal", how="fails"), terminal.experiment("b"))
    with terminal.running() as service:
        until(service, "report runs/")
        assert service.wait(SOON) == Exit.HEAL_FAILED
    story = terminal.story()
    assert story.day.state is DayState.HALTED
    assert "undo by hand: " in story.day.why
    assert "open the door by hand" in story.day.why
    assert [skip.number for skip in story.skips] == [2]
    assert "Undo by hand: " in Path(story.day.folder, "report.md").read_text()
    with terminal.running() as refused:
        until(refused, "no game day now: a heal failed and nobody has said `chaos gameday resume` since: 1 a: ")
        assert refused.wait(SOON) == Exit.USAGE
    assert "a heal failed" in terminal.ask("status")[1]
    terminal.ask("resume")
    terminal.experiment("a")
    with terminal.running() as again:
        until(again, "report runs/")
        assert again.wait(SOON) == Exit.PASS
    assert terminal.story(2).day.state is DayState.ENDED


def test_a_day_that_finds_no_room_says_so_and_goes_on_when_there_is_some(terminal: Terminal) -> None:
    terminal.write(terminal.experiment("a"))
    (terminal.place / "runs").write_text("in the way")
    with terminal.running() as service:
        until(service, "chaos: 1 a cannot be started: ")
        assert service.wait(SOON) == Exit.USAGE
    assert terminal.story().day.state is DayState.RUNNING
    (terminal.place / "runs").unlink()
    with terminal.running() as again:
        until(again, "1 a was about to be started and never was")
        until(again, "report runs/")
        assert again.wait(SOON) == Exit.PASS
    assert [attempt.attempt for attempt in terminal.story().attempts] == [1]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, Exit.TERMINATED), (signal.SIGINT, Exit.INTERRUPTED)])
def test_a_service_that_waits_ends_at_a_signal(terminal: Terminal, number: signal.Signals, code: Exit) -> None:
    schedule = {"cron": "0 10 29 2 *", "timezone": "Europe/Berlin"}
    terminal.write(terminal.experiment("a"), schedule=schedule, title="A leap day")
    with terminal.running("--out", "elsewhere") as service:
        assert "A leap day: the next start is Tue 2028-02-29 10:00:00 CET" in until(service, "next start")
        service.send_signal(number)
        assert service.wait(SOON) == code
    assert "no day has begun" in terminal.ask("status", "day.yaml")[1]
    assert not (terminal.place / "elsewhere").exists()


def test_a_plan_with_mistakes_and_a_command_without_a_game_day_say_what_to_do(terminal: Terminal) -> None:
    terminal.write(terminal.experiment("a"), schedule={"cron": "0 10 * *"})
    code, said = terminal.ask("plan", "day.yaml")
    assert code == Exit.USAGE
    assert "day.yaml:1:" in said
    assert "has 4 fields, not five" in said
    assert terminal.ask("pause") == (2, "chaos: no game day is known here; name its plan, or --state FILE\n")
    terminal.write("a.yaml")
    code, said = terminal.ask("run", "day.yaml")
    assert code == Exit.USAGE
    assert "no `schedule`; give it one, or begin with --now" in said


def test_a_preview_runs_nothing(terminal: Terminal) -> None:
    draw = {"count": 4, "mix": "llama3", "map": {"nic": ["a.yaml"]}, "arrivals": "poisson", "accelerate": 1000}
    terminal.experiment("a")
    schedule = {"cron": "0 10 * * fri", "timezone": "Europe/Berlin"}
    terminal.plan.write_text(json.dumps({"draw": draw, "schedule": schedule}))
    code, said = terminal.ask("plan", "day.yaml", "--seed", "3")
    assert code == 0
    assert said.count("process.freeze") == 4
    assert "hits worker" in said
    assert "4 experiments; by their own limits they run for at most 20 min" in said
    assert "98.3% of the mix has no experiment" in said
    assert said.count(" 10:00:00 CE") == 3
    assert terminal.ask("plan", "day.yaml", "--seed", "3")[1] == said
    assert terminal.ask("plan", "day.yaml", "--seed", "4")[1] != said
    assert not (terminal.place / "runs").exists()
    assert not (terminal.place / "state").exists()
    assert "OnCalendar=Fri *-*-* 10:00:00 Europe/Berlin" in terminal.ask("plan", "day.yaml", "--export", "systemd")[1]
