from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
from contextlib import suppress

import anyio
import pytest
from trio.testing import MockClock

from chaos.history import Event
from chaos.report.console import Console, Show

from .scripted import Script


@pytest.fixture(autouse=True)
def _terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "COLORTERM", "COLUMNS", "LINES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def plain(events: list[Event], show: Show = Show.NORMAL) -> list[str]:
    file = io.StringIO()
    with Console("cut", wall=60, file=file, show=show) as console:
        for event in events:
            console.event(event)
    return file.getvalue().splitlines()


def picture(events: list[Event], monkeypatch: pytest.MonkeyPatch, *, width: int = 140, height: int = 40) -> str:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("LINES", str(height))
    clock = Clock()
    console = Console("cut", wall=60, file=io.StringIO(), terminal=True, clock=clock)
    for event in events:
        clock.now = 100.0 + event.t
        console.event(event)
    return console.picture().plain


def test_plain_lines_tell_what_matters_in_order(events: list[Event]) -> None:
    text = "\n".join(plain(events))
    order = ["network.partition landed", "worker-n2 declared failed", "epoch 2, 2 ranks", "healed", "run ended"]
    places = [text.index(words) for words in order]
    assert places == sorted(places)
    assert "step 7 on rank" not in text
    assert "\x1b" not in text


def test_plain_lines_show_progress_rarely() -> None:
    tell = Script()
    for i in range(400):
        tell(i * 0.1, "w", "step.completed", step=i, rank=0, epoch=1, samples=[1], loss="2.0")
    lines = plain(tell.events)
    assert 3 <= len(lines) <= 4
    assert all("progress" in line and "samples/s" in line for line in lines)


def test_verbose_shows_every_event(events: list[Event]) -> None:
    assert len([line for line in plain(events, Show.ALL) if " progress " not in line]) == len(events)


def test_quiet_shows_nothing(events: list[Event]) -> None:
    assert plain(events, Show.QUIET) == []


def test_quiet_or_not_who_asks_a_third_time_is_told_what_is_left() -> None:
    asked = [
        Event(seq=i, t=20.0 * i, wall=0.0, source="harness", kind="run.interrupted", data={"signal": "SIGINT", **left})
        for i, left in enumerate(({}, {}, {"left": ["undo process.freeze on worker-1"]}))
    ]
    (line,) = plain(asked, Show.QUIET)
    assert line.endswith("interrupted by signal SIGINT: healing; not healed yet: undo process.freeze on worker-1")


def test_the_board_has_a_row_a_member_with_its_fault(events: list[Event], monkeypatch: pytest.MonkeyPatch) -> None:
    landed = next(e.seq for e in events if e.kind == "fault.landed")
    text = picture(events[: landed + 1], monkeypatch)
    row = next(line for line in text.splitlines() if line.startswith("worker-n2"))
    assert re.split(r"\s\s+", row) == [
        "worker-n2",
        "alive",
        "network.partition",
        "40",
        "1",
        "–",
        "n2",
        "2",
        "worker",
        "102",
    ]
    assert "fault  network.partition stands since 0 ms" in text
    assert "step 40 of 60" in text
    assert "54 s left" in text


def test_the_board_fits_a_small_terminal(events: list[Event], monkeypatch: pytest.MonkeyPatch) -> None:
    text = picture(events, monkeypatch, width=40, height=5)
    lines = text.splitlines()
    assert len(lines) <= 5
    assert "… and " in lines[-1]
    assert all(len(line) <= 40 for line in lines[1:])


def test_time_left_goes_on_while_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    console = Console("cut", wall=60, file=io.StringIO(), terminal=True, clock=clock)
    console.event(Script()(0.0, "harness", "target.starting"))
    clock.now += 20
    assert "40 s left" in console.picture().plain


def test_it_draws_four_times_a_second_at_most() -> None:
    tell, clock, file = Script(), Clock(), io.StringIO()
    tell(0.0, "w", "member.started", member="marker", role="worker", pid=1)
    with Console("cut", wall=60, file=file, terminal=True, clock=clock) as console:
        for i in range(1000):
            clock.now += 0.001
            console.event(tell(i * 0.001, "w", "probe.sampled", value=i))
        console.event(tell.events[0])
        file.truncate(0)
        for i in range(1000):
            clock.now += 0.001
            console.event(tell(1 + i * 0.001, "w", "probe.sampled", value=i))
    assert 2 <= file.getvalue().count("marker") <= 5


@pytest.mark.parametrize("error", [ValueError("x"), KeyboardInterrupt()])
def test_the_cursor_comes_back_on_any_exit(events: list[Event], error: BaseException) -> None:
    file = io.StringIO()
    with suppress(type(error)), Console("cut", wall=60, file=file, terminal=True) as console:
        for event in events:
            console.event(event)
        raise error
    assert "\x1b[?25l" in file.getvalue()
    assert file.getvalue().rindex("\x1b[?25h") > file.getvalue().rindex("\x1b[?25l")


@pytest.mark.parametrize("refused", [False, True])
def test_no_color_is_respected(events: list[Event], monkeypatch: pytest.MonkeyPatch, refused: bool) -> None:
    if refused:
        monkeypatch.setenv("NO_COLOR", "1")
    file = io.StringIO()
    with Console("cut", wall=60, file=file, terminal=True) as console:
        for event in events:
            console.event(event)
    assert bool(re.search(r"\x1b\[[0-9;]*3[0-7]m", file.getvalue())) is not refused


def test_a_log_that_knows_ascii_only_gets_its_lines(events: list[Event]) -> None:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding="ascii")
    with Console("cut", wall=60, file=file) as console:
        console.event(Script()(0.0, "harness", "job.failed", reason="Zürich – 漢"))
        console.event(Script()(1.0, "harness", "run.ended", reason="finished"))
    assert b"job failed: Z?rich ? ?" in raw.getvalue()
    assert b"run ended: finished" in raw.getvalue()


@pytest.mark.parametrize("anyio_backend", [("trio", {"clock": MockClock(autojump_threshold=0)})], ids=["virtual"])
@pytest.mark.anyio
async def test_the_clock_ticks_while_nothing_happens() -> None:
    file = io.StringIO()
    with Console("cut", wall=60, file=file, terminal=True, clock=anyio.current_time) as console:
        console.event(Script()(0.0, "harness", "target.starting"))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(console.ticks)
            await anyio.sleep(30.5)
            tasks.cancel_scope.cancel()
    assert "59 s left" in file.getvalue()
    assert "30 s left" in file.getvalue()


class Closed(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError


@pytest.mark.parametrize("terminal", [True, False])
def test_a_terminal_that_went_away_does_not_reach_the_run(events: list[Event], terminal: bool) -> None:
    with Console("cut", wall=60, file=Closed(), terminal=terminal) as console:
        for event in events:
            console.event(event)
    assert console.board.rows


@pytest.mark.slow
def test_a_real_terminal_gets_the_board_and_its_cursor_back() -> None:
    code = """if True:
        import sys
        from chaos.history import Event
        from chaos.report.console import Console
        with Console("cut", wall=60, file=sys.stderr) as console:
            console.event(Event(0, 0.0, 0.0, "w", "member.started", {"member": "w7", "pid": 1}))
            console._drawn = 0
            console.draw()
    """
    master, slave = pty.openpty()
    done = subprocess.run([sys.executable, "-c", code], stderr=slave, env={**os.environ, "TERM": "xterm"}, check=True)
    os.close(slave)
    shown = os.read(master, 65536).decode()
    os.close(master)
    assert done.returncode == 0
    assert "w7" in shown
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")


def test_a_reader_that_pauses_holds_nobody_up_and_is_told_what_was_left_out(events: list[Event]) -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writer, b"x" * 4096)
    os.set_blocking(writer, True)
    with os.fdopen(reader, "rb", buffering=0) as end, os.fdopen(writer, "w") as file:
        with Console("cut", wall=60, file=file, show=Show.ALL) as console:
            for event in events[:-1]:
                console.event(event)  # would wait for ever
            end.read(1 << 20)
            console.event(events[-1])
        said = end.read(1 << 20).decode()
    left_out = re.search(r"\((\d+) lines left out before this one: nobody read\)", said)
    assert left_out is not None, said
    assert int(left_out[1]) >= len(events) - 1
