"""One day, from its agenda to its end. Whatever kills the process, the same day goes on from the store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from chaos.errors import Exit, GameDayError
from chaos.gameday.children import Child
from chaos.gameday.desk import UNHEALED, Desk
from chaos.gameday.records import Attempt, DayRecord, DayState, Finding, Gate
from chaos.gameday.store import Store
from chaos.gameday.targets import Holder, Targets
from chaos.gameday.terms import Turn

MOST_ATTEMPTS = 2  # one that was cut off, and one more
_LOCK_AGAIN = 2.0  # seconds between two tries for a target of another game day: nobody tells when it is let go


class Starter(Protocol):
    """Starts experiments, once each (`chaos.gameday.children`)."""

    def start(self, folder: Path, command: Sequence[str], record: Callable[[int, str], None]) -> Child: ...

    async def find(self, folder: Path, pid: int | None, birth: str) -> Child | None: ...

    def began(self, folder: Path) -> bool: ...


class Hands(NamedTuple):
    """What a day works with; the edge puts it together."""

    store: Store
    desk: Desk
    starter: Starter
    targets: Targets
    command: Callable[[Turn, Path], Sequence[str]]  # that runs an experiment into a folder
    judge: Callable[[Path, int | None], Awaitable[Finding]]  # by that folder, and the exit code where it is known
    announce: Callable[[str, str], None]  # kind, text
    now: Callable[[], float]
    closed: Callable[[float], str]  # why nothing may begin at that moment
    holder: Holder


class _Over(Exception):
    """The day ends here; the turns that are left are not run."""

    def __init__(self, state: DayState, why: str) -> None:
        super().__init__(why)
        self.state, self.why = state, why


class Day:
    """`run` takes up wherever the store says that the day is."""

    def __init__(self, record: DayRecord, hands: Hands) -> None:
        self._record, self._hands = record, hands
        self._plan = record.plan
        self._turns = record.agenda.turns

    async def run(self) -> DayState:
        """Every turn has its chance, or the day ends before; either way nothing is left running, and the end is on
        record."""
        hands = self._hands
        try:
            hands.desk.take_up(self._record.id, hands.announce)
            await self._settle()
            await self._take_targets()
            if why := await self._approved("start", f"may “{self._plan.title}” begin?", "start"):
                raise _Over(DayState.REFUSED, why)
            for turn in self._turns:
                await self._turn(turn)
            state, why = DayState.ENDED, ""
        except _Over as over:
            state, why = over.state, over.why
            for turn in self._turns:
                if not any(attempt.finding for attempt in self._attempts(turn)):
                    self._skip(turn, why)
        finally:
            hands.targets.release()
            hands.desk.lay_down()
        self._tell("day.ended", f"{state.value}: {why}" if why else "every experiment had its turn")
        hands.store.end(self._record.id, state, why, hands.now())
        return state

    # --- after a restart ---------------------------------------------------------------------------------------------

    async def _settle(self) -> None:
        """What was started before this process: waited for, or judged by what it left."""
        for turn in self._turns:
            for attempt in self._attempts(turn):
                if attempt.finding is None:
                    await self._settle_one(turn, attempt)
                else:
                    self._consider(turn, attempt.finding)

    async def _settle_one(self, turn: Turn, attempt: Attempt) -> None:
        hands, folder = self._hands, Path(attempt.folder)
        child = await hands.starter.find(folder, attempt.pid, attempt.born)
        if child is not None:
            self._tell("experiment.found", f"{_name(turn)} still runs (pid {child.pid})")
            with hands.desk.ending(child):
                await child.wait()
        if hands.starter.began(folder):
            await self._conclude(turn, attempt, None, orphaned=True)
        else:
            self._tell("experiment.unborn", f"{_name(turn)} was about to be started and never was")

    # --- before a turn -----------------------------------------------------------------------------------------------

    async def _take_targets(self) -> None:
        hands, told = self._hands, False
        while busy := hands.targets.take(self._plan.targets, hands.holder):
            own = busy.by is not None and busy.by.day == hands.holder.day
            if self._plan.busy == "refuse" and not own:
                raise _Over(DayState.REFUSED, str(busy))
            if not told:
                self._tell("day.waiting", str(busy))
                told = True
            await hands.desk.until(lambda: bool(hands.desk.aborted), hands.now() + _LOCK_AGAIN)
            self._heed_abort()

    async def _turn(self, turn: Turn) -> None:
        store = self._hands.store
        if turn.number in store.skipped(self._record.id):
            return
        while self._is_to_run(turn):
            if why := await self._refusal(turn):
                self._skip(turn, why)
                return
            await self._start(turn)

    def _is_to_run(self, turn: Turn) -> bool:
        attempts = self._attempts(turn)
        if not attempts or attempts[-1].finding is None:
            return True
        again = self._plan.interrupted == "rerun" and len(attempts) < MOST_ATTEMPTS and not self._hands.desk.aborted
        return attempts[-1].interrupted and again

    async def _refusal(self, turn: Turn) -> str:
        """Wait until the turn has come; why it is not run, if it is not."""
        hands = self._hands
        desk = hands.desk
        if turn.due is not None:
            await desk.until(lambda: bool(desk.aborted), self._record.started + turn.due)
        while True:
            await desk.until(lambda: bool(desk.aborted) or not desk.paused)
            self._heed_abort()
            if why := hands.closed(hands.now()) or self._ladder(turn) or await self._asked(turn):
                return why
            if not desk.paused:  # as it may be since somebody was asked
                return hands.closed(hands.now())

    def _ladder(self, turn: Turn) -> str:
        """An experiment of a rung needs everything of the rungs below to have passed."""
        ladder = self._plan.ladder
        below = ladder[: ladder.index(turn.piece.rung)] if ladder else ()
        for other in self._turns:
            attempts = self._attempts(other)
            if other.piece.rung in below and not (attempts and attempts[-1].passed):
                return f"the rung `{other.piece.rung}` is not passed: {_name(other)}"
        return ""

    async def _asked(self, turn: Turn) -> str:
        name, rung = _name(turn), turn.piece.rung
        if turn.piece.ask is False:
            return ""
        if why := await self._approved(rung, f"may experiments of the rung `{rung}` begin?", f"rung {rung}"):
            return why
        if turn.piece.ask:
            return await self._ask(f"{turn.number}", f"may {name} begin?")
        return await self._approved("each", f"may {name} begin?", f"{turn.number}")

    async def _approved(self, when: str, question: str, gate: str) -> str:
        """Ask, if the plan says so; why not to go on, or nothing."""
        asked = self._plan.approvals
        return await self._ask(gate, question) if asked and when in asked.before else ""

    async def _ask(self, name: str, question: str) -> str:
        hands, day = self._hands, self._record.id
        within = self._plan.approvals.within if self._plan.approvals else 1800.0
        then = self._plan.approvals.then if self._plan.approvals else "skip"
        now = hands.now()
        gate = hands.store.ask(day, Gate(name=name, asked=now, until=now + within))
        if not gate.answer and gate.asked == now:
            self._tell("approval.asked", f"{question} `chaos gameday approve` or `reject`, within {within:g} s")

        def current() -> Gate:
            return next(known for known in hands.store.gates(day) if known.name == name)

        await hands.desk.until(lambda: bool(hands.desk.aborted or current().answer), gate.until)
        self._heed_abort()
        if not current().answer:
            hands.store.answer(day, name, "expired", "")
            self._tell("approval.expired", f"nobody answered: {question}")
        gate = current()
        if gate.answer == "approved" or (gate.answer == "expired" and then == "go"):
            return ""
        why = f"rejected by {gate.by}" if gate.answer == "rejected" else "nobody approved"
        if then == "abort":
            raise _Over(DayState.ABORTED, why)
        return why

    # --- a turn ------------------------------------------------------------------------------------------------------

    async def _start(self, turn: Turn) -> None:
        hands, day = self._hands, self._record.id
        attempts = self._attempts(turn)
        if attempts and attempts[-1].finding is None:
            attempt = attempts[-1]  # intended before a kill, and never started
        else:
            count = len(attempts) + 1
            folder = Path(self._record.folder, f"{turn.number:02}-{turn.piece.name}" + f"-again{count}" * (count > 1))
            attempt = Attempt(number=turn.number, attempt=count, folder=str(folder), intended=hands.now())
            hands.store.intend(day, attempt)
        folder = Path(attempt.folder)
        try:
            child = hands.starter.start(
                folder,
                hands.command(turn, folder),
                lambda pid, birth: hands.store.started(str(folder), pid, birth, hands.now()),
            )
        except OSError as error:  # no room, no process: nothing has run, and the day goes on when it is started again
            raise GameDayError(
                f"{_name(turn)} cannot be started: {error}; mend it and start the game day again"
            ) from error
        with hands.desk.ending(child):
            again = " again" if attempt.attempt > 1 else ""
            self._tell("experiment.started", f"{_name(turn)} started{again} (seed {turn.seed}, pid {child.pid})")
            code = await child.wait()
        await self._conclude(turn, attempt, code, orphaned=False)

    async def _conclude(self, turn: Turn, attempt: Attempt, code: int | None, *, orphaned: bool) -> None:
        hands = self._hands
        finding = await hands.judge(Path(attempt.folder), code)
        hands.store.ended(attempt.folder, finding, hands.now(), orphaned=orphaned)
        known = finding.exit.name if finding.exit is not None else "no exit code"
        word = f"ended with {known}" if finding.complete else "was cut off"
        self._tell("experiment.ended", f"{_name(turn)} {word}: {finding.headline}")
        self._consider(turn, finding)
        self._heed_abort()

    def _consider(self, turn: Turn, finding: Finding) -> None:
        """Whether the day may go on after that."""
        if finding.exit == Exit.HEAL_FAILED:
            undo = "; ".join(finding.undo) or f"see {finding.folder}"
            self._hands.store.note(UNHEALED, f"{_name(turn)}: {undo}")
            raise _Over(
                DayState.HALTED, f"a heal failed in {_name(turn)}; undo by hand: {undo}; then `chaos gameday resume`"
            )
        if finding.complete and finding.exit == Exit.FAIL and self._plan.stop_on == "fail":
            raise _Over(DayState.STOPPED, f"{_name(turn)} failed")

    # --- small things ------------------------------------------------------------------------------------------------

    def _heed_abort(self) -> None:
        if self._hands.desk.aborted:
            raise _Over(DayState.ABORTED, self._hands.desk.aborted)

    def _attempts(self, turn: Turn) -> list[Attempt]:
        return self._hands.store.attempts(self._record.id, turn.number)

    def _skip(self, turn: Turn, why: str) -> None:
        if turn.number not in self._hands.store.skipped(self._record.id):
            self._hands.store.skip(self._record.id, turn.number, why, self._hands.now())
            self._tell("experiment.skipped", f"{_name(turn)} is not run: {why}")

    def _tell(self, kind: str, text: str) -> None:
        self._hands.store.tell(self._record.id, kind, text, self._hands.now())
        self._hands.announce(kind, text)


def _name(turn: Turn) -> str:
    return f"{turn.number} {turn.piece.name}"
