"""When days begin: cron as cron reads it, the hours that clock changes leave out or repeat, closed times."""

from __future__ import annotations

from itertools import islice

import pytest

from chaos.gameday.terms import Blackout, Hours, Timetable
from chaos.gameday.timetable import Calendar, weekdays

from .fakes import at, plan


def starts(cron: str, after: str, count: int, timezone: str = "Europe/Berlin") -> list[str]:
    calendar = Calendar(plan(timetable=Timetable(cron=cron, timezone=timezone)))
    found = islice(calendar.between(at(after), float("inf")), count)
    return [calendar.write(start) for start in found]


def test_a_weekly_start() -> None:
    assert starts("0 10 * * fri", "2026-12-01T00:00", 2) == [
        "Fri 2026-12-04 10:00:00 CET",
        "Fri 2026-12-11 10:00:00 CET",
    ]


def test_a_start_is_after_the_moment_that_is_asked_for() -> None:
    assert starts("0 10 * * fri", "2026-12-04T10:00", 1) == ["Fri 2026-12-11 10:00:00 CET"]


@pytest.mark.parametrize(("field", "day"), [("0", "Sun"), ("7", "Sun"), ("1", "Mon"), ("5", "Fri"), ("fri", "Fri")])
def test_days_of_the_week_count_from_sunday_as_cron_has_it(field: str, day: str) -> None:
    assert starts(f"0 10 * * {field}", "2026-12-01T00:00", 1)[0].startswith(day)


@pytest.mark.parametrize(
    ("field", "meant"),
    [
        ("*", "*"),
        ("1-5", "mon,tue,wed,thu,fri"),
        ("fri-mon", "fri,sat,sun,mon"),
        ("5-7", "fri,sat,sun"),
        ("0,3", "sun,wed"),
    ],
)
def test_spans_of_days(field: str, meant: str) -> None:
    assert weekdays(field) == meant


def test_the_hour_that_does_not_exist_is_moved_and_not_lost() -> None:
    assert starts("30 2 * * *", "2027-03-27T00:00", 3) == [
        "Sat 2027-03-27 02:30:00 CET",
        "Sun 2027-03-28 03:30:00 CEST",
        "Mon 2027-03-29 02:30:00 CEST",
    ]


def test_the_hour_that_comes_twice_starts_one_day() -> None:
    assert starts("30 2 * * *", "2026-10-24T12:00", 2) == [
        "Sun 2026-10-25 02:30:00 CEST",
        "Mon 2026-10-26 02:30:00 CET",
    ]


def test_an_hourly_start_comes_in_both_of_the_two_hours() -> None:
    assert starts("0 * * * *", "2026-10-25T01:30", 3) == [
        "Sun 2026-10-25 02:00:00 CEST",
        "Sun 2026-10-25 02:00:00 CET",
        "Sun 2026-10-25 03:00:00 CET",
    ]


def test_the_same_line_in_another_zone_is_another_moment() -> None:
    assert starts("0 10 * * fri", "2026-12-01T00:00", 1, "Asia/Tokyo") == ["Fri 2026-12-04 10:00:00 JST"]
    tokyo = Calendar(plan(timetable=Timetable(cron="0 10 * * fri", timezone="Asia/Tokyo")))
    assert tokyo.next(at("2026-12-01T00:00")) == at("2026-12-04T02:00")


def test_no_schedule_has_no_start() -> None:
    assert Calendar(plan()).next(0.0) is None


@pytest.mark.parametrize(
    ("moment", "reason"),
    [
        ("2026-12-04T09:59", "outside business hours"),
        ("2026-12-04T10:00", ""),
        ("2026-12-04T16:59", ""),
        ("2026-12-04T17:00", "outside business hours"),
        ("2026-12-05T12:00", "outside business hours"),
        ("2026-12-21T12:00", "blackout until 2026-12-23: freeze"),
        ("2026-12-23T12:00", "blackout"),
        ("2026-12-24T12:00", ""),
        ("2026-12-28T12:29", ""),
        ("2026-12-28T12:30", "blackout until 2026-12-28T13:00"),
        ("2026-12-28T13:00", ""),
    ],
)
def test_closed_times(moment: str, reason: str) -> None:
    closed = (
        Blackout(begin="2026-12-20", end="2026-12-23", why="freeze"),
        Blackout(begin="2026-12-28T12:30", end="2026-12-28T13:00"),
    )
    timetable = Timetable(cron="0 10 * * *", timezone="Europe/Berlin")
    calendar = Calendar(plan(timetable=timetable, blackouts=closed, hours=Hours(begin="10:00", end="17:00")))
    said = calendar.closed(at(moment))
    assert said.startswith(reason) if reason else said == ""
