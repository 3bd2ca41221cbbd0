"""The state of a game day: one SQLite file, durable at every step, read and written by several processes at a time."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from chaos.errors import GameDayError
from chaos.gameday.records import Attempt, DayRecord, DayState, DayStory, Finding, Gate, Line, Order, Skip
from chaos.gameday.terms import Agenda, Plan

FORMAT = 1
_PATIENCE = 30.0  # seconds to wait for another writer
_TABLES = """
create table if not exists days(
    id integer primary key, planned real not null, started real not null, ended real, state text not null,
    why text not null default '', folder text not null, plan blob not null, agenda blob not null
) strict;
create table if not exists attempts(
    day integer not null, number integer not null, attempt integer not null, folder text not null unique,
    intended real not null, pid integer, born text not null default '', begun real, ended real, finding blob,
    orphaned integer not null default 0, primary key (day, number, attempt)
) strict;
create table if not exists skips(
    day integer not null, number integer not null, at real not null, why text not null, primary key (day, number)
) strict;
create table if not exists gates(
    day integer not null, name text not null, asked real not null, until real not null,
    answer text not null default '', by text not null default '', primary key (day, name)
) strict;
create table if not exists timeline(
    id integer primary key, day integer, at real not null, kind text not null, text text not null
) strict;
create table if not exists orders(
    id integer primary key, at real not null, what text not null, text text not null, by text not null, handled real
) strict;
create table if not exists facts(name text primary key, value text not null) strict;
"""
_ATTEMPT = "number, attempt, folder, intended, pid, born, begun, ended, finding, orphaned"


class Store:
    """Every write is on the disk when its method returns. Raises GameDayError, with the file and the reason."""

    def __init__(self, path: Path, *, write: bool = False) -> None:
        self.path = path
        with self._telling():
            if not write and not path.is_file():
                raise GameDayError(f"{path}: no state of a game day; `chaos gameday run` keeps one")
            if write:
                path.parent.mkdir(parents=True, exist_ok=True)
            address = f"{path.absolute().as_uri()}?mode={'rwc' if write else 'rw'}"
            self._file = sqlite3.connect(address, uri=True, timeout=_PATIENCE, isolation_level=None)
            self._file.row_factory = sqlite3.Row
            self._file.execute("pragma synchronous = full")
            (found,) = self._file.execute("pragma user_version").fetchone()
        if found > FORMAT or (found == 0 and not write):
            self._file.close()
            reason = f"written by a newer version of chaos (format {found})" if found else "no state of a game day"
            raise GameDayError(f"{path}: {reason}")
        if found == 0:
            with self._telling():  # `immediate`: of two that make it at the same time one waits, and then finds it made
                self._file.executescript(f"begin immediate;{_TABLES}pragma user_version = {FORMAT};commit;")

    @contextmanager
    def _telling(self) -> Iterator[None]:
        try:
            yield
        except (OSError, sqlite3.Error, msgspec.MsgspecError) as error:
            raise GameDayError(f"{self.path}: {error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def _do(self, statement: str, *values: Any) -> int:
        with self._telling():
            return self._file.execute(statement, values).lastrowid or 0

    def _ask(self, question: str, *values: Any) -> list[sqlite3.Row]:
        with self._telling():
            return self._file.execute(question, values).fetchall()

    # --- days --------------------------------------------------------------------------------------------------------

    def begin(self, plan: Plan, agenda: Agenda, *, planned: float, started: float, folder: str) -> DayRecord:
        """A day, with its dice, written down before anything of it runs."""
        state, dice = msgspec.json.encode(plan), msgspec.json.encode(agenda)
        number = self._do(
            "insert into days(planned, started, state, folder, plan, agenda) values (?, ?, ?, ?, ?, ?)",
            planned, started, DayState.RUNNING.value, folder, state, dice,
        )  # fmt: skip
        return self.day(number)

    def end(self, day: int, state: DayState, why: str, at: float) -> None:
        """How a day came to its end."""
        self._do("update days set state = ?, why = ?, ended = ? where id = ?", state.value, why, at, day)

    def day(self, number: int) -> DayRecord:
        """One day; GameDayError where there is none of that number."""
        found = self._days("where id = ?", number)
        if not found:
            raise GameDayError(f"{self.path}: no day {number}")
        return found[0]

    def days(self) -> list[DayRecord]:
        """All days, oldest first."""
        return self._days("order by id")

    def last(self) -> DayRecord | None:
        """The day that was begun last."""
        found = self._days("order by id desc limit 1")
        return found[0] if found else None

    def _days(self, which: str, *values: Any) -> list[DayRecord]:
        columns = "id, planned, started, ended, state, why, folder, plan, agenda"
        rows = self._ask(f"select {columns} from days {which}", *values)
        with self._telling():
            return [
                DayRecord(
                    **{key: row[key] for key in ("id", "planned", "started", "ended", "why", "folder")},
                    state=DayState(row["state"]),
                    plan=msgspec.json.decode(row["plan"], type=Plan),
                    agenda=msgspec.json.decode(row["agenda"], type=Agenda),
                )
                for row in rows
            ]

    def story(self, day: int) -> DayStory:
        """All that is known of a day."""
        (since,) = self._ask("select coalesce(max(ended), 0) from days where id < ?", day)[0]
        record = self.day(day)
        return DayStory(
            day=record,
            before=tuple(line for line in self.lines() if since < line.at <= (record.ended or line.at)),
            attempts=tuple(self.attempts(day)),
            skips=tuple(Skip(**dict(r)) for r in self._ask("select number, why, at from skips where day = ?", day)),
            gates=tuple(self.gates(day)),
            lines=tuple(self.lines(day)),
        )

    # --- attempts ----------------------------------------------------------------------------------------------------

    def intend(self, day: int, attempt: Attempt) -> None:
        """That an experiment is about to be started; from now on it counts as one that may run."""
        self._do(
            "insert into attempts(day, number, attempt, folder, intended) values (?, ?, ?, ?, ?)",
            day, attempt.number, attempt.attempt, attempt.folder, attempt.intended,
        )  # fmt: skip

    def started(self, folder: str, pid: int, born: str, at: float) -> None:
        """Who runs it."""
        self._do("update attempts set pid = ?, born = ?, begun = ? where folder = ?", pid, born, at, folder)

    def ended(self, folder: str, finding: Finding, at: float, *, orphaned: bool) -> None:
        """What came of it."""
        self._do(
            "update attempts set ended = ?, finding = ?, orphaned = ? where folder = ?",
            at, msgspec.json.encode(finding), int(orphaned), folder,
        )  # fmt: skip

    def attempts(self, day: int, number: int | None = None) -> list[Attempt]:
        """Of one turn, or of the whole day, in order."""
        rows = self._ask(
            f"select {_ATTEMPT} from attempts where day = ? and coalesce(? = number, true) order by number, attempt",
            day, number,
        )  # fmt: skip
        with self._telling():
            return [_attempt(row) for row in rows]

    def skip(self, day: int, number: int, why: str, at: float) -> None:
        """That a turn is not run."""
        self._do("insert into skips values (?, ?, ?, ?) on conflict do nothing", day, number, at, why)

    def skipped(self, day: int) -> frozenset[int]:
        """The turns that are not run."""
        return frozenset(row[0] for row in self._ask("select number from skips where day = ?", day))

    # --- approvals, timeline, orders ---------------------------------------------------------------------------------

    def ask(self, day: int, gate: Gate) -> Gate:
        """Open a gate, or find it as it is: one that was asked before a restart keeps its time and its answer."""
        self._do(
            "insert into gates(day, name, asked, until) values (?, ?, ?, ?) on conflict do nothing",
            day, gate.name, gate.asked, gate.until,
        )  # fmt: skip
        return next(known for known in self.gates(day) if known.name == gate.name)

    def answer(self, day: int, name: str, answer: str, by: str) -> None:
        """The first answer counts."""
        self._do(
            "update gates set answer = ?, by = ? where day = ? and name = ? and answer = ''", answer, by, day, name
        )

    def gates(self, day: int) -> list[Gate]:
        """In the order in which they were asked."""
        question = "select name, asked, until, answer, by from gates where day = ? order by asked"
        return [Gate(**dict(row)) for row in self._ask(question, day)]

    def tell(self, day: int | None, kind: str, text: str, at: float) -> None:
        """A line of the timeline; without a day, one of the service."""
        self._do("insert into timeline(day, at, kind, text) values (?, ?, ?, ?)", day, at, kind, text)

    def lines(self, day: int | None = None) -> list[Line]:
        """Of a day, or of the service between days."""
        question = "select at, kind, text from timeline where day is ? order by at, id"
        return [Line(**dict(row)) for row in self._ask(question, day)]

    def order(self, what: str, text: str, by: str, at: float) -> None:
        """Leave an order; whoever runs the day is to be woken (`chaos.gameday.wake`)."""
        self._do("insert into orders(at, what, text, by) values (?, ?, ?, ?)", at, what, text, by)

    def orders(self) -> Sequence[Order]:
        """Those that nobody has handled, in order."""
        rows = self._ask("select id, at, what, text, by from orders where handled is null order by id")
        return [Order(**dict(row)) for row in rows]

    def handled(self, order: int, at: float) -> None:
        """That it took effect."""
        self._do("update orders set handled = ? where id = ?", at, order)

    def fact(self, name: str) -> str:
        """What was noted under a name: `paused`, `planned until`, `heal failed`; empty where nothing was."""
        rows = self._ask("select value from facts where name = ?", name)
        return str(rows[0][0]) if rows else ""

    def note(self, name: str, value: str) -> None:
        """Note a fact in place of what was noted before."""
        self._do("insert into facts values (?, ?) on conflict do update set value = excluded.value", name, value)


def _attempt(row: sqlite3.Row) -> Attempt:
    finding = msgspec.json.decode(row["finding"], type=Finding) if row["finding"] is not None else None
    return Attempt(**{**dict(row), "finding": finding, "orphaned": bool(row["orphaned"])})
