"""When a day may begin: cron in a time zone, blackouts, business hours."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from chaos.gameday.terms import DAYS, Plan
from chaos.units import counted

FIELDS = ("minute", "hour", "day of month", "month", "day of week")
_SUNDAY_FIRST = ("sun", *DAYS)  # cron counts from Sunday, and calls it 7 as well


class Calendar:
    """The times of one plan, as Unix seconds. ValueError where the cron line or the time zone is wrong."""

    def __init__(self, plan: Plan) -> None:
        self.zone = zone_of(plan.timezone)
        self._blackouts = [
            (begin.replace(tzinfo=self.zone).timestamp(), end.replace(tzinfo=self.zone).timestamp(), blackout)
            for blackout in plan.blackouts
            for begin, end in [blackout.span()]
        ]
        self._hours = plan.hours
        self._cron = plan.timetable.cron if plan.timetable else ""
        self._trigger = trigger_of(self._cron, self.zone) if self._cron else None

    def next(self, after: float) -> float | None:
        """The first start after that moment; None without a schedule, or where none comes any more.

        A time that a clock change leaves out is moved by the length of the gap; one that comes twice is the first of
        the two, unless the hour is a wildcard: then every hour that passes counts.
        """
        found = self._trigger
        if found is None:
            return None
        # Added in UTC: local arithmetic forgets which of two equal hours it is in.
        local = (datetime.fromtimestamp(after, UTC) + timedelta(microseconds=1)).astimezone(self.zone)
        while True:
            fire = found.get_next_fire_time(None, local)
            if fire is None:
                return None
            if not fire.fold or self._cron.split()[1].startswith("*"):
                return float(fire.timestamp())
            local = (fire.astimezone(UTC) + timedelta(seconds=1)).astimezone(self.zone)

    def between(self, after: float, until: float) -> Iterator[float]:
        """Every start after the one and up to the other moment."""
        while (fire := self.next(after)) is not None and fire <= until:
            yield fire
            after = fire

    def closed(self, at: float) -> str:
        """Why nothing may begin at that moment; empty where it may."""
        for begin, end, blackout in self._blackouts:
            if begin <= at < end:
                return f"blackout until {blackout.end}" + (f": {blackout.why}" if blackout.why else "")
        local = datetime.fromtimestamp(at, self.zone)
        if self._hours is not None:
            begin_minute, end_minute = self._hours.minutes()
            minute = local.hour * 60 + local.minute
            if local.weekday() not in self._hours.weekdays() or not begin_minute <= minute < end_minute:
                return f"outside business hours ({self._hours.days} {self._hours.begin} to {self._hours.end})"
        return ""

    def write(self, at: float) -> str:
        """The moment as it is written here."""
        return f"{datetime.fromtimestamp(at, self.zone):%a %Y-%m-%d %H:%M:%S %Z}"


def zone_of(name: str) -> ZoneInfo:
    """The zone; ValueError where there is none of that name."""
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, LookupError):
        raise ValueError(f"no time zone `{name}`; such as Europe/Berlin or UTC") from None


def trigger_of(cron: str, zone: ZoneInfo) -> Any:
    """The trigger of a cron line with five fields, read as cron reads it; ValueError with the reason.

    The library counts weekdays from Monday and wants both days to match where cron wants either: the first is turned
    into names here, the second refused.
    """
    from apscheduler.triggers.cron import CronTrigger

    fields = cron.split()
    if len(fields) != len(FIELDS):
        raise ValueError(f"`{cron}` has {counted(len(fields), 'field')}, not five: {', '.join(FIELDS)}")
    minute, hour, day, month, weekday = fields
    if day != "*" and weekday != "*":
        raise ValueError(f"`{cron}`: cron starts when either day matches; give the day of the month or of the week")
    try:
        return CronTrigger(
            minute=minute, hour=hour, day=day, month=month.lower(), day_of_week=weekdays(weekday), timezone=zone
        )
    except (ValueError, TypeError) as error:
        raise ValueError(f"`{cron}`: {error}") from None


def weekdays(field: str) -> str:
    """The cron field with names for numbers, and no span across the end of the week."""
    if field == "*":
        return field
    found: list[str] = []
    for part in field.lower().split(","):
        match = re.fullmatch(r"(\w+)(?:-(\w+))?", part)
        if match is None:
            raise ValueError(f"`{part}` is no day of the week or span of days")
        low, high = _weekday(match[1]), _weekday(match[2] or match[1])
        found += [DAYS[n % 7] for n in range(low, high + 1 if high >= low else high + 8)]
    return ",".join(dict.fromkeys(found))


def _weekday(word: str) -> int:
    name = _SUNDAY_FIRST[int(word)] if word.isdigit() and int(word) < len(_SUNDAY_FIRST) else word
    if name not in DAYS:
        raise ValueError(f"`{word}` is no day of the week; mon to sun, or 0 to 7 with Sunday as 0 and 7")
    return DAYS.index(name)
