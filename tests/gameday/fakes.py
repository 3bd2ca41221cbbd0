"""A day without processes: children that are a script in virtual time, and a wall clock that can be set."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import anyio

from chaos.errors import Exit
from chaos.gameday.agenda import draw
from chaos.gameday.children import Child
from chaos.gameday.day import Day, Hands
from chaos.gameday.desk import Desk
from chaos.gameday.records import DayRecord, DayState, DayStory, Finding
from chaos.gameday.service import Service
from chaos.gameday.store import Store
from chaos.gameday.targets import Holder, Targets
from chaos.gameday.terms import Piece, Plan, Turn
from chaos.gameday.timetable import Calendar

BERLIN = ZoneInfo("Europe/Berlin")
LENGTH = 10.0  # seconds of an experiment


def at(text: str, fold: int = 0) -> float:
    """A wall-clock time in Berlin."""
    return datetime.fromisoformat(text).replace(tzinfo=BERLIN, fold=fold).timestamp()


def piece(name: str, rung: str = "member", ask: bool | None = None, target: str = "/t/target.yaml") -> Piece:
    return Piece(
        file=f"/x/{name}.yaml", name=name, title=f"The {name}", target=target, rung=rung, derived=True, seed=7,
        wall=60.0, promises=("RTO total ≤ 20s", "no-orphan"), ask=ask,
    )  # fmt: skip


def plan(*names: str, **more: object) -> Plan:
    pieces = more.pop("pieces", None) or tuple(map(piece, names or ("a", "b", "c")))
    return Plan(title="A day", name="day", path="/p/day.yaml", pieces=pieces, **more)  # type: ignore[arg-type]


class Killed(BaseException):
    """The process that runs the game day is gone, without a word."""


class FakeChild:
    """Runs for some time; heals and ends half a second after it was asked to."""

    ours = True

    def __init__(self, world: World, folder: str, code: int) -> None:
        self.pid = 100 + len(world.started)
        self.world, self.folder, self.code = world, folder, code
        self.until = world.clock() + world.lengths.get(Path(folder).name[3:], LENGTH)
        self.asked: float | None = None
        self._asked = anyio.Event()
        self.cut = False

    def terminate(self) -> None:
        if self.asked is None:
            self.asked = self.world.clock()
            self._asked.set()

    async def wait(self) -> int | None:
        with anyio.move_on_after(max(0.0, self.until - self.world.clock())):
            await self._asked.wait()
        if self.asked is not None:
            await anyio.sleep(0.5)
            self.code = int(Exit.TERMINATED)
        return self.code


class World:
    """What outlives the process of a game day: the machine with its clock, its children, and the store."""

    def __init__(self, place: Path, start: float) -> None:
        self.place, self.begin, self.set_by = place, start, 0.0
        self.store = Store(place / "state.sqlite", write=True)
        self.started: list[str] = []
        self.children: dict[str, FakeChild] = {}
        self.marked: set[str] = set()
        self.codes: dict[str, list[int]] = {}  # by experiment: of its first run, its second, …
        self.lengths: dict[str, float] = {}
        self.undo: tuple[str, ...] = ()
        self.said: list[tuple[str, str]] = []
        self.die_at: Callable[[str], bool] = lambda place: False
        self.desk = Desk(self.store, self.clock)

    def clock(self) -> float:
        """Wall-clock time."""
        return self.begin + anyio.current_time() - self._zero + self.set_by

    def here(self) -> World:
        """Call it once, inside the event loop."""
        self._zero = anyio.current_time()
        return self

    # --- what children are started and found by ----------------------------------------------------------------------

    def start(self, folder: Path, command: Sequence[str], record: Callable[[int, str], None]) -> Child:
        name = folder.name[3:].partition("-again")[0]
        assert str(folder) not in self.marked, "started twice"
        self._dies("before the start")
        codes = self.codes.get(name, [])
        count = sum(Path(f).name[3:].partition("-again")[0] == name for f in self.started)
        child = FakeChild(self, str(folder), codes[min(count, len(codes) - 1)] if codes else 0)
        record(child.pid, "born")
        self._dies("before it was told to go")
        self.started.append(str(folder))
        self.marked.add(str(folder))
        self.children[str(folder)] = child
        return child

    async def find(self, folder: Path, pid: int | None, birth: str) -> Child | None:
        child = self.children.get(str(folder))
        return child if child is not None and child.until > self.clock() and not child.cut else None

    def began(self, folder: Path) -> bool:
        return str(folder) in self.marked

    async def judge(self, folder: Path, code: int | None) -> Finding:
        child = self.children[str(folder)]
        if child.cut:
            return Finding(complete=False, headline="cut off", folder=str(folder))
        undo = self.undo if child.code == Exit.HEAL_FAILED else ()
        return Finding(complete=True, exit=Exit(child.code), headline=f"code {child.code}", undo=undo)

    def _dies(self, place: str) -> None:
        if self.die_at(place):
            self.die_at = lambda place: False
            raise Killed

    # --- one process of the game day ---------------------------------------------------------------------------------

    def restart(self) -> None:
        """A new process: nothing but the store and the children is left of the old one."""
        self.desk = Desk(self.store, self.clock)

    def hands(self, it: Plan) -> Hands:
        return Hands(
            store=self.store, desk=self.desk, starter=self, targets=Targets(self.place / "targets"),
            command=lambda turn, folder: ("run", turn.piece.file), judge=self.judge,
            announce=lambda kind, text: self.said.append((kind, text)), now=self.clock,
            closed=Calendar(it).closed, holder=Holder(day="this", title=it.title, plan=it.path, pid=1),
        )  # fmt: skip

    def record(self, it: Plan) -> DayRecord:
        return self.store.begin(
            it, draw(it, 5), planned=self.clock(), started=self.clock(), folder=str(self.place / "day")
        )

    async def live(self, record: DayRecord) -> DayState:
        if record.ended is not None:
            self.said.append(("report.written", "after a kill"))
            return record.state
        return await Day(record, self.hands(record.plan)).run()

    async def run(self, it: Plan) -> DayStory:
        """A whole day."""
        record = self.record(it)
        await self.live(record)
        return self.store.story(record.id)

    async def go_on(self, day: int = 1) -> DayStory:
        """The same day in a new process."""
        self.restart()
        await self.live(self.store.day(day))
        return self.store.story(day)

    def service(self, it: Plan) -> Service:
        folders = iter(range(1000))
        return Service(
            it, self.store, self.desk, Calendar(it), self.clock, self.live,
            lambda started: str(self.place / f"day{next(folders)}"),
        )  # fmt: skip

    def order(self, what: str, text: str = "") -> None:
        """From another terminal."""
        self.store.order(what, text, "ada", self.clock())
        self.desk.look()

    def names(self) -> list[str]:
        """The experiments that were started, in order."""
        return [Path(folder).name for folder in self.started]


@contextmanager
def dying() -> Iterator[None]:
    """The block ends with the death of the process."""
    try:
        yield
    except Killed:
        return
    raise AssertionError("it lives")


def turns(story: DayStory) -> dict[str, str]:
    """What became of each turn: exit of its last attempt, or why it was not run."""
    found: dict[str, str] = {skip_name(story, skip.number): skip.why for skip in story.skips}
    for attempt in story.attempts:
        if attempt.finding is not None:
            exit_ = attempt.finding.exit
            found[skip_name(story, attempt.number)] = exit_.name if exit_ is not None else "cut off"
    return found


def skip_name(story: DayStory, number: int) -> str:
    turn: Turn = story.day.agenda.turns[number - 1]
    return turn.piece.name
