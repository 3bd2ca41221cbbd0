"""`chaos gameday run`: the service in the foreground, wired to real processes, the real clock and the terminal."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import anyio
from anyio import to_thread
from anyio.abc import TaskStatus

from chaos.cli.gameday_findings import examine
from chaos.cli.gameday_places import home, running, state_of
from chaos.cli.gameday_reports import write_story
from chaos.errors import ChaosError, Exit, GameDayError
from chaos.gameday.announce import announcing
from chaos.gameday.children import Processes
from chaos.gameday.day import Day, Hands
from chaos.gameday.desk import Desk
from chaos.gameday.records import DayRecord, DayState, Finding
from chaos.gameday.service import Service, outcome
from chaos.gameday.store import Store
from chaos.gameday.targets import Holder, Targets
from chaos.gameday.terms import Plan, Turn
from chaos.gameday.timetable import Calendar
from chaos.gameday.wake import Bell
from chaos.load.gameday import load_gameday

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main(call: argparse.Namespace) -> int:
    """Serve until told to end; the exit code is that of the last day."""
    plan = load_gameday(call.plan)
    if plan.timetable is None and not call.now:
        raise GameDayError(f"{call.plan}: no `schedule`; give it one, or begin with --now")
    state = Path(call.state).absolute() if call.state else state_of(call.plan)
    with running(state, plan.path, plan.title), Store(state, write=True) as store:
        serving = _Serving(plan, state, store, Path(call.out).resolve())
        try:
            return anyio.run(serving.serve, call.now, call.once)
        except ExceptionGroup as group:  # what went wrong in one of the tasks
            known, others = group.split(ChaosError)
            if known is None or others is not None:
                raise
            raise _first(known) from group


def _first(group: BaseException) -> BaseException:
    while isinstance(group, BaseExceptionGroup):
        group = group.exceptions[0]
    return group


class _Serving:
    def __init__(self, plan: Plan, state: Path, store: Store, out: Path) -> None:
        self._plan, self._state, self._store, self._out = plan, state, store, out
        self._desk = Desk(store, time.time)
        self._calendar = Calendar(plan)
        self._lived: int | None = None  # the last day
        self._goes_on = False  # after this day

    async def serve(self, at_once: bool, once: bool) -> int:
        service = Service(
            self._plan, self._store, self._desk, self._calendar, time.time, self._live, self._new_folder
        )  # fmt: skip
        self._goes_on = not at_once and not once
        with Bell(self._state) as bell:
            async with anyio.create_task_group() as tasks:
                await tasks.start(self._heed_signals)
                if not at_once:  # only now: who reads it may answer with a signal
                    _say(f"{self._plan.title}: {self._upcoming()}")
                tasks.start_soon(bell.heed, self._desk.look)
                await service.run(at_once=at_once, once=once)
                tasks.cancel_scope.cancel()
        if self._desk.closing:
            return Exit.INTERRUPTED if self._desk.closing == signal.SIGINT else Exit.TERMINATED
        return Exit.PASS if self._lived is None else outcome(self._store.story(self._lived))

    def _upcoming(self) -> str:
        start = self._calendar.next(time.time())
        return f"the next start is {self._calendar.write(start)}" if start is not None else "no start is left"

    async def _heed_signals(self, *, task_status: TaskStatus[None]) -> None:
        heeded = [s for s in SIGNALS if s != signal.SIGHUP or signal.getsignal(s) != signal.SIG_IGN]
        with anyio.open_signal_receiver(*heeded) as received:
            task_status.started()
            async for signum in received:
                _say(f"{signum.name}: what runs is asked to heal and end")
                self._desk.close(signum, f"aborted by {signum.name}")

    async def _live(self, record: DayRecord) -> DayState:
        self._lived = record.id
        targets = Targets(home() / "targets")
        about = {"day": f"{record.plan.name} {record.id}", "title": record.plan.title, "plan": record.plan.path}
        async with announcing(record.plan.announce, about, partial(self._trouble, record.id)) as announcer:

            def announce(kind: str, text: str) -> None:
                _say(text)
                announcer.say(kind, text, time.time())

            for line in self._store.lines(record.id)[-1:]:
                announce(line.kind, f"{record.plan.title}: {line.text}")
            hands = Hands(
                store=self._store, desk=self._desk, targets=targets, now=time.time, announce=announce,
                starter=Processes(targets.files),
                command=partial(_command, record.plan), judge=self._judge, closed=self._calendar.closed,
                holder=Holder(
                    day=f"{self._state}#{record.id}", title=record.plan.title, plan=record.plan.path, pid=os.getpid()
                ),
            )  # fmt: skip
            # A kill may have come between the end and the report.
            state = record.state if record.ended is not None else await Day(record, hands).run()
            if not self._desk.closing:
                self._desk.aborted = ""  # of that day; the service goes on
            announce("report.written", await to_thread.run_sync(self._report, record.id))
        if self._goes_on and not self._desk.closing:
            _say(self._upcoming())
        return state

    def _report(self, day: int) -> str:
        with Store(self._state) as store:
            return write_story(store, day)

    async def _judge(self, folder: Path, code: int | None) -> Finding:
        return await to_thread.run_sync(examine, folder, code, folder.parents[1])

    def _trouble(self, day: int, text: str) -> None:
        self._store.tell(day, "announcement.failed", text, time.time())

    def _new_folder(self, started: float) -> str:
        stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(started))
        return str(self._out / f"gameday-{stamp}-{self._plan.name}-{os.urandom(2).hex()}")


def _command(plan: Plan, turn: Turn, folder: Path) -> Sequence[str]:
    words = [
        sys.executable,
        "-m",
        "chaos",
        "run",
        turn.piece.file,
        "--seed",
        str(turn.seed),
        "--out",
        str(folder),
        "-q",
    ]
    words += [word for name, value in turn.piece.settings.items() for word in ("--set", f"{name}={value}")]
    return words + ([] if plan.lab else ["--no-lab"])


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)
