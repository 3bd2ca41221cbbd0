"""From day to day: starts by the schedule, missed ones, a clock that is set, a process that comes back."""

from __future__ import annotations

import anyio
import pytest

from chaos.errors import GameDayError
from chaos.gameday.records import DayState
from chaos.gameday.story import report
from chaos.gameday.terms import Blackout, Missed, Plan, Timetable

from .fakes import World, at, plan

pytestmark = pytest.mark.anyio
HOUR = 3600.0


def fridays(missed: Missed = "report", cron: str = "0 10 * * fri", **more: object) -> Plan:
    return plan("a", timetable=Timetable(cron=cron, timezone="Europe/Berlin", missed=missed), **more)


def told(world: World) -> list[str]:
    """What the service said between days."""
    return [line.text for line in world.store.lines()]


async def serve(world: World, it: Plan, hours: float, *, once: bool = False, at_once: bool = False) -> None:
    """A process of the service, for that long."""
    with anyio.move_on_after(hours * HOUR):
        await world.service(it).run(at_once=at_once, once=once)


async def test_a_day_begins_at_its_time_and_again_at_the_next(world: World) -> None:
    await serve(world.here(), fridays(cron="0 10,11 * * fri"), 2)
    assert [day.started for day in world.store.days()] == [at("2026-12-04T10:00"), at("2026-12-04T11:00")]
    assert [day.state for day in world.store.days()] == [DayState.ENDED] * 2
    assert told(world) == []


async def test_once_is_one_day(world: World) -> None:
    await serve(world.here(), fridays(), 24, once=True)
    assert len(world.store.days()) == 1
    assert world.clock() < at("2026-12-04T10:05")


async def test_at_once_begins_a_day_without_the_schedule(world: World) -> None:
    await serve(world.here(), plan("a"), 1, at_once=True)
    assert [day.started for day in world.store.days()] == [at("2026-12-04T09:30")]


async def test_a_first_service_knows_of_no_missed_starts(world: World) -> None:
    world.set_by = HOUR
    await serve(world.here(), fridays(), 1)
    assert told(world) == []
    assert world.store.days() == []


@pytest.mark.parametrize(
    ("missed", "down", "days", "lines"),
    [
        ("report", 2.0, 0, 1),
        ("skip", 2.0, 0, 0),
        ("late", 2.0, 1, 0),
        ("late", 3.0, 0, 1),  # beyond the grace of two hours
    ],
)
async def test_a_start_at_which_the_machine_was_off(
    world: World, missed: Missed, down: float, days: int, lines: int
) -> None:
    await serve(world.here(), fridays(missed), 0.1)
    await anyio.sleep(down * HOUR)
    world.restart()
    await serve(world, fridays(missed), 1)
    assert len(world.store.days()) == days
    assert len(told(world)) == lines
    assert all("the start of Fri 2026-12-04 10:00:00 CET was missed" in line for line in told(world))


async def test_of_many_missed_starts_the_last_is_run_late_and_the_others_are_told(world: World) -> None:
    hourly = fridays("late", "0 * * * *")
    await serve(world.here(), hourly, 0.1)
    await anyio.sleep(50 * HOUR)  # until 11:36 on Sunday
    world.restart()
    await serve(world, hourly, 0.2)
    assert [day.planned for day in world.store.days()] == [at("2026-12-06T11:00")]
    assert len(told(world)) == 21
    assert told(world)[-1] == "and 29 more starts missed until Sun 2026-12-06 11:00:00 CET"


async def test_a_clock_that_is_set_back_starts_nothing_twice(world: World) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve, world.here(), fridays(), 24)
        await anyio.sleep(0.6 * HOUR)
        assert len(world.store.days()) == 1
        world.set_by = -2 * HOUR
    assert len(world.store.days()) == 1


async def test_a_clock_that_is_set_ahead_of_a_start_has_missed_it(world: World) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve, world.here(), fridays(), 1)
        await anyio.sleep(0.1 * HOUR)
        world.set_by = 2 * HOUR
    assert world.store.days() == []
    assert told(world) == ["the start of Fri 2026-12-04 10:00:00 CET was missed: nobody was there to begin it"]


async def test_a_clock_that_is_set_ahead_a_little_begins_the_day_sooner(world: World) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve, world.here(), fridays(), 1)
        await anyio.sleep(0.1 * HOUR)
        world.set_by = 0.3 * HOUR
    (day,) = world.store.days()
    assert 0 <= day.started - at("2026-12-04T10:00") < 60


async def test_no_day_begins_in_a_blackout_and_that_is_told(world: World) -> None:
    closed = (Blackout(begin="2026-12-04", end="2026-12-04", why="freeze"),)
    await serve(world.here(), fridays(blackouts=closed, cron="0 10 * * *"), 25)
    assert [day.started for day in world.store.days()] == [at("2026-12-05T10:00")]
    assert told(world) == [
        "the start of Fri 2026-12-04 10:00:00 CET was missed: blackout until 2026-12-04: freeze"
    ]  # fmt: skip
    world.restart()
    world.set_by -= 24 * HOUR
    with pytest.raises(GameDayError, match="freeze"):
        await serve(world, fridays(blackouts=closed), 1, at_once=True)


async def test_no_day_begins_while_paused(world: World) -> None:
    world.here().order("pause", "incident")
    await serve(world, fridays(), 24)
    assert world.store.days() == []
    assert told(world)[-1].endswith("was missed: paused by ada: incident")


async def test_after_a_heal_that_failed_no_day_begins_until_somebody_says_so(world: World) -> None:
    world.here().codes["a"] = [4, 0]
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve, world, fridays(cron="0 10-13 * * fri"), 3)
        await anyio.sleep(2 * HOUR)
        assert [day.state for day in world.store.days()] == [DayState.HALTED]
        assert "a heal failed and nobody has said" in told(world)[-1]
        world.order("resume")
    assert [day.state for day in world.store.days()] == [DayState.HALTED, DayState.ENDED]


async def test_missed_starts_are_in_the_report_of_the_next_day_and_of_no_other(world: World) -> None:
    hourly = fridays(cron="0 10-12 * * fri", blackouts=(Blackout(begin="2026-12-04T10:00", end="2026-12-04T10:30"),))
    await serve(world.here(), hourly, 3)
    first, second = (world.store.story(day) for day in (1, 2))
    assert [line.text[:45] for line in first.before] == ["the start of Fri 2026-12-04 10:00:00 CET was "]
    assert second.before == ()
    assert report(first).surprises[0].startswith("The start of Fri 2026-12-04 10:00:00 CET was missed: blackout")
    assert "start.missed" in [entry.kind for entry in report(first).timeline]


async def test_starts_during_a_day_are_missed(world: World) -> None:
    world.here().lengths["a"] = 2.5 * HOUR
    await serve(world, fridays(cron="0 10-14 * * fri"), 4)
    assert [day.started for day in world.store.days()] == [at("2026-12-04T10:00"), at("2026-12-04T13:00")]
    assert [line[:49] for line in told(world)] == [
        "the start of Fri 2026-12-04 11:00:00 CET was miss",
        "the start of Fri 2026-12-04 12:00:00 CET was miss",
    ]


async def test_a_day_that_was_cut_off_goes_on_before_anything_else(world: World) -> None:
    it = plan("a", "b", timetable=Timetable(cron="0 10 * * fri", timezone="Europe/Berlin"))
    with anyio.move_on_after(HOUR / 2 + 13):
        await world.here().service(it).run(at_once=False, once=True)
    assert world.names() == ["01-a", "02-b"]
    world.restart()
    await serve(world, it, 24, once=True)
    (day,) = world.store.days()
    assert day.state is DayState.ENDED
    assert world.names() == ["01-a", "02-b"]
    assert "day.resumed" in [line.kind for line in world.store.lines(1)]


async def test_a_kill_between_the_end_and_the_report_costs_neither(world: World) -> None:
    world.here()
    await world.run(plan("a"))
    world.restart()
    await serve(world, plan("a"), 1, at_once=True)
    assert len(world.store.days()) == 1
    assert world.said[-1] == ("report.written", "after a kill")
    await serve(world, plan("a"), 1, at_once=True)
    assert len(world.store.days()) == 2


async def test_a_service_that_is_told_to_end_ends_while_it_waits(world: World) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve, world.here(), fridays(), 24)
        await anyio.sleep(60)
        world.desk.close(15, "SIGTERM")
        await anyio.sleep(1)
        tasks.cancel_scope.deadline = anyio.current_time() + 1
    assert world.store.days() == []
    assert world.clock() < at("2026-12-04T09:40")
