"""What the plan of a game day says, checked and with every experiment looked up; and what its dice made of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from chaos.api import Duration

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
RUNGS = ("member", "node")  # that selectors know without a declaration; a failure domain is a rung of its own name
Rate = Annotated[float, Meta(gt=0, extra={"unit": "rate"}, description="times per time, such as 7.8/d")]
Positive = Annotated[float, Meta(gt=0)]
Missed = Literal["report", "late", "skip"]


class Timetable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When days begin. A start that was missed is reported, or run late within `grace`, or skipped without a word."""

    cron: str
    timezone: str = "UTC"
    missed: Missed = "report"
    grace: Duration = 7200.0


class Blackout(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"begin": "from", "end": "to"}
):
    """A time in which nothing begins. A date as `to` is that whole day; times are in the timetable's time zone."""

    begin: str
    end: str
    why: str = ""

    def __post_init__(self) -> None:
        begin, end = self.span()
        if end <= begin:
            raise ValueError(f"a blackout that ends ({self.end}) before it begins ({self.begin})")

    def span(self) -> tuple[datetime, datetime]:
        """From and to, without a time zone."""
        return _moment(self.begin, last=False), _moment(self.end, last=True)


def _moment(text: str, *, last: bool) -> datetime:
    try:
        if re.fullmatch(r"\d{4}-\d\d-\d\d", text):
            return datetime.combine(date.fromisoformat(text), time()) + timedelta(days=int(last))
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"`{text}` is no date or time; such as 2026-12-20 or 2026-12-20T18:00") from None
    if found.tzinfo is not None:
        raise ValueError(f"`{text}` has a time zone of its own; the schedule's `timezone` holds for all times")
    return found


class Hours(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"begin": "from", "end": "to"}
):
    """The only times at which something begins: `days: mon-fri`, `from: "09:00"`, `to: "17:00"`."""

    days: str = "mon-fri"
    begin: str = "00:00"
    end: str = "24:00"

    def __post_init__(self) -> None:
        self.weekdays()
        if _minutes(self.end) <= _minutes(self.begin):
            raise ValueError(f"business hours that end ({self.end}) before they begin ({self.begin})")

    def weekdays(self) -> frozenset[int]:
        """0 is Monday."""
        found: set[int] = set()
        for part in self.days.split(","):
            first, _, last = (word.strip().lower() for word in part.partition("-"))
            for word in (first, last or first):
                if word not in DAYS:
                    raise ValueError(f"`{part.strip()}` is no day or span of days; such as mon-fri or mon,wed")
            low, high = DAYS.index(first), DAYS.index(last or first)
            found |= {day % 7 for day in range(low, high + 1 if high >= low else high + 8)}
        return frozenset(found)

    def minutes(self) -> tuple[int, int]:
        """From and to, in minutes of the day."""
        return _minutes(self.begin), _minutes(self.end)


def _minutes(text: str) -> int:
    match = re.fullmatch(r"(\d\d?):(\d\d)", text)
    total = int(match[1]) * 60 + int(match[2]) if match and int(match[2]) < 60 else -1
    if not 0 <= total <= 24 * 60:
        raise ValueError(f'`{text}` is no time of the day; such as "09:00", in quotes')
    return total


class Approvals(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What waits for a person: `start`, `each` experiment, or the first of a rung, by its name."""

    before: tuple[str, ...]
    within: Duration = 1800.0
    then: Literal["skip", "abort", "go"] = "skip"


class Channel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where announcements go: a webhook gets JSON by POST, a file a line each."""

    webhook: str | None = None
    file: str | None = None

    def __post_init__(self) -> None:
        if (self.webhook is None) == (self.file is None):
            raise ValueError("a channel is `webhook: URL` or `file: PATH`")
        if self.webhook is not None and not re.match(r"https?://[^/]", self.webhook):
            raise ValueError(f"`{self.webhook}` is no http or https address")


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """An experiment as the plan found it. `derived`: its rung follows from its selectors, nobody declared it."""

    file: str  # absolute
    name: str
    title: str
    target: str  # absolute path of its target file
    rung: str
    derived: bool
    seed: int
    wall: float  # its own limit, seconds
    promises: tuple[str, ...] = ()  # its contract, in words
    settings: Mapping[str, str] = {}  # put over the file's
    ask: bool | None = None  # whether it waits for an approval; None: as the plan says


class Draw(msgspec.Struct, frozen=True, kw_only=True):
    """Experiments by lot: `mix` category → weight, `stands_for` category → pieces that stand for it."""

    count: int
    mix: Mapping[str, float]
    stands_for: Mapping[str, tuple[int, ...]]  # indices into the plan's pieces
    rate: float | None = None  # failures per second in the real world; None: one after the other
    accelerate: float = 1.0
    seed: int | None = None


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A whole plan, enough to run a day without the file."""

    title: str
    name: str  # the file's stem
    path: str  # absolute
    pieces: tuple[Piece, ...]
    timetable: Timetable | None = None
    blackouts: tuple[Blackout, ...] = ()
    hours: Hours | None = None
    ladder: tuple[str, ...] = ()
    draw: Draw | None = None  # None: the pieces in their order
    approvals: Approvals | None = None
    announce: tuple[Channel, ...] = ()
    interrupted: Literal["leave", "rerun"] = "leave"
    stop_on: Literal["fail", "heal-failed"] = "heal-failed"
    busy: Literal["refuse", "wait"] = "refuse"
    lab: bool = True

    @property
    def timezone(self) -> str:
        """In which all its times are meant."""
        return self.timetable.timezone if self.timetable else "UTC"

    @property
    def targets(self) -> tuple[str, ...]:
        """Every target file, in one order for everybody: two days that need the same ones cannot block each other."""
        return tuple(sorted({piece.target for piece in self.pieces}))


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One place in a day's order. `due`: seconds from the day's start; None: as soon as the one before is over."""

    number: int
    piece: Piece
    seed: int
    due: float | None = None
    category: str = ""


class Uncovered(msgspec.Struct, frozen=True, kw_only=True):
    """A failure that was drawn and for which no experiment stands."""

    category: str
    due: float | None = None


class Agenda(msgspec.Struct, frozen=True, kw_only=True):
    """A day with every die thrown. `silent`: categories without an experiment and their share of the mix's weight."""

    seed: int
    turns: tuple[Turn, ...]
    uncovered: tuple[Uncovered, ...] = ()
    silent: Mapping[str, float] = {}
    never: tuple[str, ...] = ()  # categories that an experiment stands for and that were not drawn
