"""From day to day: wait for the schedule, begin, take up a day that a kill cut off, tell of starts that were missed."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from itertools import islice

from chaos.errors import Exit, GameDayError
from chaos.gameday.agenda import draw
from chaos.gameday.desk import PAUSED, UNHEALED, Desk
from chaos.gameday.records import DayRecord, DayState, DayStory
from chaos.gameday.store import Store
from chaos.gameday.terms import Plan
from chaos.gameday.timetable import Calendar
from chaos.units import counted

ON_TIME = (
    60.0  # seconds: a start that is later than this was missed (the machine was off, asleep, or its clock was set)
)
TOLD = 20  # missed starts that are told one by one
OVER = "over"  # a fact in the store: the last day that is over, with its report
PLANNED = "planned until"  # a fact in the store: every start up to that moment has been dealt with


class Service:
    """`live` runs one day, from wherever it is, to its end and its report; of one that has ended, the report is left.
    `folder` names a new day's."""

    def __init__(
        self, plan: Plan, store: Store, desk: Desk, calendar: Calendar, now: Callable[[], float],
        live: Callable[[DayRecord], Awaitable[DayState]], folder: Callable[[float], str],
    ) -> None:  # fmt: skip
        self._plan, self._store, self._desk, self._calendar = plan, store, desk, calendar
        self._now, self._live, self._folder = now, live, folder

    async def run(self, *, at_once: bool, once: bool) -> None:
        """Until the service is told to end, or no start is left. With `at_once` a day begins without the schedule;
        with `once` the first day is the last. A day that was cut off goes on before anything else."""
        last = self._store.last()
        if last is not None and self._store.fact(OVER) != str(last.id):
            if last.state is DayState.RUNNING:
                self._desk.day = last.id  # orders that came while nobody was there are about that day
                self._store.tell(last.id, "day.resumed", "the game day was started again and goes on", self._now())
            await self._finish(last)
            if once or at_once:
                return
        elif at_once:
            self._desk.look()
            if why := self._refusal():
                raise GameDayError(f"no game day now: {why}")
            await self._begin(self._now())
            return
        self._desk.look()
        while not self._desk.closing:
            start = await self._next()
            if start is None:
                return
            began = await self._begin(start)
            if began and once:
                return

    async def _next(self) -> float | None:
        """The next start that is to be run, at its time; None where there is none, or the service is to end."""
        if not self._store.fact(PLANNED):
            self._store.note(PLANNED, repr(self._now()))
        while True:
            start = self._late() or self._calendar.next(self._planned())
            if start is None:
                return None
            await self._desk.until(lambda: bool(self._desk.closing), start)
            if self._desk.closing:
                return None
            if self._now() - start > self._allowed():
                continue  # the clock was set while we waited: it is one of the missed ones now
            return start

    def _planned(self) -> float:
        """Up to when every start has been dealt with; one that began a day is dealt with from that moment on."""
        last = self._store.last()
        return max(float(self._store.fact(PLANNED)), last.planned if last else 0.0)

    def _allowed(self) -> float:
        """How late a start may be."""
        timetable = self._plan.timetable
        return max(timetable.grace, ON_TIME) if timetable and timetable.missed == "late" else ON_TIME

    def _late(self) -> float | None:
        """Deal with all starts that are over: the last one may still be run, the others were missed."""
        now = self._now()
        over = self._calendar.between(self._planned(), now)
        missed = list(islice(over, TOLD))
        more, last = 0, missed[-1] if missed else None
        for start in over:
            more, last = more + 1, start
        if last is None:
            return None
        late = last if now - last <= self._allowed() else None
        if late is not None and more:
            more -= 1
        elif late is not None:
            missed.remove(late)
        for start in missed:
            self._missed(start, "nobody was there to begin it")
            self._store.note(PLANNED, repr(start))
        if more:
            self._say_missed(f"and {counted(more, 'more start')} missed until {self._calendar.write(last)}")
            self._store.note(PLANNED, repr(last))
        return late

    async def _begin(self, planned: float) -> bool:
        """A day, if one may begin now; whether it did."""
        if why := self._refusal():
            self._missed(planned, why)
            self._store.note(PLANNED, repr(planned))
            return False
        agenda = draw(self._plan, secrets.randbits(31))
        started = self._now()
        record = self._store.begin(self._plan, agenda, planned=planned, started=started, folder=self._folder(started))
        late = f", {started - planned:.0f} s late" if started - planned > 1 else ""
        many = counted(len(agenda.turns), "experiment")
        self._store.tell(record.id, "day.started", f"{many}, seed {agenda.seed}{late}", started)
        await self._finish(record)
        for start in self._calendar.between(planned, self._now()):
            self._missed(start, f"the day of {self._calendar.write(planned)} was still running")
            self._store.note(PLANNED, repr(start))
        return True

    async def _finish(self, record: DayRecord) -> None:
        await self._live(record)
        self._store.note(OVER, str(record.id))

    def _refusal(self) -> str:
        """Why no day may begin now."""
        if unhealed := self._store.fact(UNHEALED):
            return f"a heal failed and nobody has said `chaos gameday resume` since: {unhealed}"
        return self._store.fact(PAUSED) or self._calendar.closed(self._now())

    def _missed(self, start: float, why: str) -> None:
        self._say_missed(f"the start of {self._calendar.write(start)} was missed: {why}")

    def _say_missed(self, text: str) -> None:
        if self._plan.timetable is None or self._plan.timetable.missed != "skip":
            self._store.tell(None, "start.missed", text, self._now())


def outcome(story: DayStory) -> Exit:
    """What a day amounts to: a heal that failed, then a failure, then anything that is not proved."""
    attempts = {attempt.number: attempt for attempt in story.attempts if attempt.finding is not None}
    exits = {a.finding.exit for a in story.attempts if a.finding is not None and a.finding.complete}
    if story.day.state is DayState.HALTED or Exit.HEAL_FAILED in exits:
        return Exit.HEAL_FAILED
    if Exit.FAIL in exits:
        return Exit.FAIL
    whole = story.day.state is DayState.ENDED and len(attempts) == len(story.day.agenda.turns)
    return Exit.PASS if whole and all(attempt.passed for attempt in attempts.values()) else Exit.INCONCLUSIVE
