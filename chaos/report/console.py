"""Live progress of a run: a board of members on a terminal, else plain lines for the events that matter."""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from enum import IntEnum
from types import TracebackType
from typing import TYPE_CHECKING, Self, TextIO

import anyio

from chaos.history import Event
from chaos.report.board import Board, Row
from chaos.report.lines import KEY_KINDS, clean, describe, number, seconds
from chaos.units import counted

if TYPE_CHECKING:
    from rich.console import Console as RichConsole
    from rich.live import Live
    from rich.text import Text

_PERIOD = 0.25  # seconds between two drawings, at least
_LINE = 1000  # characters of a line at most: a pipe that takes anything takes 4 KiB
_PROGRESS = 10.0  # seconds between two lines of progress where there is no board

_STYLES = {
    "fault.landed": "bold red", "fault.healed": "green", "fault.failed": "bold red", "fault.missed": "yellow",
    "failure.detected": "yellow", "recovery.action": "yellow", "recovery.validated": "green", "group.formed": "green",
    "baseline.missed": "yellow", "target.hung": "bold red", "abort.triggered": "bold red", "limit.reached": "bold red",
    "job.failed": "bold red", "job.completed": "green", "checkpoint.damaged": "yellow", "write.rejected": "yellow",
    "replica.ejected": "yellow", "replica.returned": "green", "breaker.opened": "yellow", "breaker.closed": "green",
    "ladder.moved": "yellow", "features.moved": "yellow", "drain.begun": "yellow", "session.resumed": "green",
}  # fmt: skip


class Show(IntEnum):
    """How much of the run is shown: nothing (`-q`, but to a third signal what is not healed yet), what matters,
    every event (`-v`)."""

    QUIET = -1
    NORMAL = 0
    ALL = 1


class Console:
    """An observer of a run. Use as a context manager: the terminal is as it was when the block is left, however.

    Trouble with the terminal never reaches the run: when it was closed, the console falls silent; while nobody reads
    (a full pipe, Ctrl-S), lines are left out and counted, since waiting would hold up a heal. Draws at most four times
    a second and only upon an event; `ticks` keeps the clock going while nothing happens.
    """

    def __init__(
        self,
        title: str,
        *,
        wall: float,
        file: TextIO,
        show: Show = Show.NORMAL,
        terminal: bool | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`wall` is the run's limit in seconds; `terminal` None: whether `file` is one."""
        self.board = Board()
        self._title, self._wall, self._file, self._show, self._clock = title, wall, file, show, clock
        self._rich: RichConsole | None = None
        self._live: Live | None = None
        self._began = self._drawn = clock()
        self._told = 0.0
        self._broken = False
        self._left_out = 0  # lines and drawings that nobody would have read
        if (file.isatty() if terminal is None else terminal) and show is not Show.QUIET:
            self._rich = _rich_console(file, terminal)

    def __enter__(self) -> Self:
        if self._rich is not None and self._show is Show.NORMAL and not self._rich.is_dumb_terminal:
            from rich.live import Live

            self._live = Live(
                console=self._rich,
                get_renderable=self.picture,
                auto_refresh=False,  # no thread: the run's own events draw
                transient=True,
                redirect_stdout=False,
                redirect_stderr=True,  # a warning must not tear the board
            )
            self._guard(self._live.start)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            live, self._live = self._live, None
            self._guard(live.stop, wait=True)

    def event(self, event: Event) -> None:
        """Take an event into account, show it if it matters."""
        self.board.event(event)
        self._began = min(self._began, self._clock() - event.t)
        asked_again = event.kind == "run.interrupted" and "left" in event.data
        if self._broken or (self._show is Show.QUIET and not asked_again):
            return
        if event.kind in KEY_KINDS or self._show is Show.ALL:
            self._guard(lambda: self._say(event.t, event.source, describe(event), _STYLES.get(event.kind, "")))
        if self._live is not None:
            self.draw()
        elif self._show is not Show.QUIET and event.t - self._told >= _PROGRESS and self._progress():
            self._told = event.t
            self._guard(lambda: self._say(event.t, "progress", self._progress(), ""))

    def draw(self) -> None:
        """Draw the board, unless it was drawn a moment ago."""
        now = self._clock()
        if self._live is not None and not self._broken and now - self._drawn >= _PERIOD:
            self._drawn = now
            self._guard(self._live.refresh)

    async def ticks(self) -> None:
        """Draw once a second until cancelled, so that the time left is right while nothing happens."""
        while True:
            await anyio.sleep(1)
            self.draw()

    def picture(self) -> Text:
        """The board as it stands: header, faults, one row a member; as wide and high as the terminal at most."""
        assert self._rich is not None
        from rich.text import Text

        width, height = self._rich.size
        text = Text(no_wrap=True, overflow="ellipsis", end="")
        head = [self.board.phase, self._progress(), f"{self._left():.0f} s left"]
        text.append(clean(self._title), "bold").append("  " + " · ".join(filter(None, head)) + "\n")
        for step, fault in self.board.faults.items():
            since = seconds(max(0.0, self._elapsed() - fault.since))
            kind = "" if step == fault.kind else f" ({clean(fault.kind)})"
            text.append(f"fault  {clean(step)}{kind} stands since {since}\n", "bold red")
        if self.board.detected:
            text.append(f"recovering  {clean(self.board.detected)}\n", "yellow")
        room = max(1, height - text.plain.count("\n") - 3)
        _table(text, self.board, room, width)
        return text

    def _elapsed(self) -> float:
        return max(self.board.now, self._clock() - self._began)

    def _left(self) -> float:
        return max(0.0, self._wall - self._elapsed())

    def _progress(self) -> str:
        board = self.board
        if board.step is None:
            return board.traffic.line() if board.traffic else ""
        of = f" of {board.steps}" if board.steps else ""
        rate = f" · {number(round(board.rate, 1))} samples/s" if board.rate is not None else ""
        loss = f" · loss {clean(board.loss)[:7]}" if board.loss else ""
        return f"step {board.step}{of}{rate}{loss}"

    def _say(self, t: float, source: str, text: str, style: str) -> None:
        if self._left_out:
            text, self._left_out = (
                f"{text}  ({counted(self._left_out, 'line')} left out before this one: nobody read)",
                0,
            )
        line = f"{t:8.2f}  {clean(source):<24} {text}"[:_LINE]
        if self._rich is None:
            encoding = self._file.encoding or "utf-8"  # some CI logs know ASCII only
            self._file.write(line.encode(encoding, "replace").decode(encoding) + "\n")
            self._file.flush()
        else:
            from rich.text import Text

            self._rich.print(Text(line, style), soft_wrap=True)

    def _guard(self, action: Callable[[], object], *, wait: bool = False) -> None:
        try:
            if wait or _takes(self._file):
                action()
            else:
                self._left_out += 1
        except (OSError, ValueError):  # the terminal has gone, or the file was closed
            self._broken = True


def _takes(file: TextIO) -> bool:
    """Whether `_LINE` can be written without waiting. A reader that has gone takes all, and gives an error."""
    try:
        number = file.fileno()
    except OSError:  # no file of the system's
        return True
    ready = select.poll()
    ready.register(number, select.POLLOUT)
    return bool(ready.poll(0))


def _rich_console(file: TextIO, terminal: bool | None) -> RichConsole:
    from rich.console import Console as RichConsole

    class Terminal(RichConsole):
        def on_broken_pipe(self) -> None:
            raise  # the default ends the program

    return Terminal(file=file, force_terminal=terminal, highlight=False, markup=False, emoji=False)


_COLUMNS: tuple[tuple[str, Callable[[Board, Row], object]], ...] = (
    ("member", lambda _, r: r.name),
    ("state", lambda b, r: b.state_of(r)),
    ("fault", lambda b, r: ", ".join(b.faults_on(r))),
    ("step", lambda _, r: r.step),
    ("epoch", lambda _, r: r.epoch),
    ("gen", lambda _, r: r.generation),
    ("node", lambda _, r: r.node),
    ("rank", lambda _, r: r.rank),
    ("role", lambda _, r: r.role),
    ("pid", lambda _, r: r.pid),
)


def _table(text: Text, board: Board, room: int, width: int) -> None:
    """Rows of members, laid out by hand: a rich table costs ten times as much a drawing."""
    rows = list(board.rows.values())
    cells = [[title for title, _ in _COLUMNS]]
    cells += [[_cell(read(board, row)) for _, read in _COLUMNS] for row in rows[:room]]
    widths = [max(len(line[i]) for line in cells) for i in range(len(_COLUMNS))]
    for index, line in enumerate(cells):
        row = rows[index - 1] if index else None
        padded = "  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip()
        text.append(padded[:width] + "\n", _row_style(board, row))
    if len(rows) > room:
        text.append(f"… and {len(rows) - room} more\n", "dim")


def _cell(value: object) -> str:
    return "–" if value in (None, "") else clean(value)[:28]


def _row_style(board: Board, row: Row | None) -> str:
    if row is None:
        return "dim"
    if row.ended:
        return "dim" if row.ended in ("stopped", "gone", "exit 0") else "red"
    return "yellow" if board.faults_on(row) else ""
