"""One day: its order, what ends it, and that a kill at any place loses nothing and runs nothing twice."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from chaos.errors import Exit
from chaos.gameday.records import DayState
from chaos.gameday.service import outcome
from chaos.gameday.targets import Holder, Targets
from chaos.gameday.terms import Approvals, Draw, Hours

from .fakes import World, at, dying, piece, plan, turns

pytestmark = pytest.mark.anyio


async def test_experiments_run_in_their_order_and_the_day_passes(world: World) -> None:
    story = await world.here().run(plan())
    assert world.names() == ["01-a", "02-b", "03-c"]
    assert story.day.state is DayState.ENDED
    assert outcome(story) == Exit.PASS
    begun = [attempt.begun or 0.0 for attempt in story.attempts]
    assert [later - begun[0] for later in begun] == pytest.approx([0, 10, 20])


async def test_drawn_experiments_begin_when_they_are_due_and_never_together(world: World) -> None:
    lot = Draw(count=5, mix={"x": 1.0}, stands_for={"x": (0,)}, rate=1 / 86400, accelerate=3600.0, seed=3)
    story = await world.here().run(plan("a", draw=lot))
    ends = story.day.started
    for turn, attempt in zip(story.day.agenda.turns, story.attempts, strict=True):
        assert turn.due is not None
        assert attempt.begun == pytest.approx(max(ends, story.day.started + turn.due))
        ends = attempt.ended or 0.0


async def test_a_failure_does_not_stop_the_day_unless_the_plan_says_so(world: World) -> None:
    world.here().codes["b"] = [1]
    story = await world.run(plan())
    assert turns(story) == {"a": "PASS", "b": "FAIL", "c": "PASS"}
    assert outcome(story) == Exit.FAIL


async def test_a_failure_stops_a_day_that_stops_on_it(world: World) -> None:
    world.here().codes["b"] = [1]
    story = await world.run(plan(stop_on="fail"))
    assert story.day.state is DayState.STOPPED
    assert turns(story) == {"a": "PASS", "b": "FAIL", "c": "2 b failed"}


async def test_a_heal_that_failed_halts_everything_and_says_what_to_undo(world: World) -> None:
    world.here().codes["a"] = [4]
    world.undo = ("delete toxic 7",)
    story = await world.run(plan())
    assert story.day.state is DayState.HALTED
    assert "delete toxic 7" in story.day.why
    assert world.names() == ["01-a"]
    assert outcome(story) == Exit.HEAL_FAILED
    assert "delete toxic 7" in world.store.fact("heal failed")
    world.order("resume")
    assert world.store.fact("heal failed") == ""


async def test_a_rung_begins_only_after_all_below_it_passed(world: World) -> None:
    pieces = (piece("rack", "rack"), piece("one"), piece("node", "node"), piece("two"))
    world.here().codes["two"] = [3]
    story = await world.run(plan(pieces=pieces, ladder=("member", "node", "rack")))
    assert world.names() == ["01-one", "02-two"]
    assert turns(story)["node"] == "the rung `member` is not passed: 2 two"
    assert turns(story)["rack"] == "the rung `member` is not passed: 2 two"
    assert outcome(story) == Exit.INCONCLUSIVE


async def test_nothing_begins_after_hours(world: World) -> None:
    world.here().lengths["a"] = 600.0
    story = await world.run(plan(hours=Hours(end="09:35"), **zone()))
    assert turns(story)["a"] == "PASS"
    assert "outside business hours" in turns(story)["b"]


def zone() -> dict[str, object]:
    from chaos.gameday.terms import Timetable

    return {"timetable": Timetable(cron="0 10 * * fri", timezone="Europe/Berlin")}


# --- orders ----------------------------------------------------------------------------------------------------------


async def test_an_abort_ends_what_runs_at_once_and_nothing_follows(world: World) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(world.here().run, plan())
        await anyio.sleep(13.0)
        before = world.clock()
        world.order("abort", "smoke")
        assert world.children[world.started[-1]].asked == before
    story = world.store.story(1)
    assert story.day.state is DayState.ABORTED
    assert story.day.why == "aborted by ada: smoke"
    assert turns(story) == {"a": "PASS", "b": "TERMINATED", "c": "aborted by ada: smoke"}
    assert outcome(story) == Exit.INCONCLUSIVE


async def test_a_pause_lets_what_runs_finish_and_begins_nothing(world: World) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(world.here().run, plan("a", "b"))
        await anyio.sleep(1.0)
        world.order("pause")
        await anyio.sleep(100.0)
        assert world.names() == ["01-a"]
        world.order("note", "the dashboard is red")
        world.order("resume")
    story = world.store.story(1)
    assert turns(story) == {"a": "PASS", "b": "PASS"}
    assert [line.text for line in story.lines if line.kind == "note.taken"] == ["the dashboard is red (ada)"]
    assert (story.attempts[1].begun or 0) - story.day.started == pytest.approx(101.0)


async def test_a_pause_outlives_the_process(world: World) -> None:
    world.here().die_at = lambda place: len(world.started) == 1
    async with anyio.create_task_group() as tasks:
        with dying():
            world.store.note("paused", "")
            await world.run(plan("a", "b"))
        world.store.order("pause", "", "ada", world.clock())
        tasks.start_soon(world.go_on)
        await anyio.sleep(500.0)
        assert world.names() == ["01-a"]
        world.order("resume")
    assert turns(world.store.story(1)) == {"a": "PASS", "b": "PASS"}


@pytest.mark.parametrize(
    ("then", "answer", "expected"),
    [
        ("skip", "approve", DayState.ENDED), ("skip", "reject", DayState.REFUSED), ("skip", "", DayState.REFUSED),
        ("go", "", DayState.ENDED), ("go", "reject", DayState.REFUSED), ("abort", "", DayState.ABORTED),
    ],
)  # fmt: skip
async def test_a_day_begins_when_a_person_says_so(world: World, then: str, answer: str, expected: DayState) -> None:
    asked = Approvals(before=("start",), within=60.0, then=then)  # type: ignore[arg-type]
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(world.here().run, plan("a", approvals=asked))
        await anyio.sleep(20.0)
        assert world.names() == []
        if answer:
            world.order(answer)
    story = world.store.story(1)
    assert story.day.state is expected
    assert world.names() == (["01-a"] if expected is DayState.ENDED else [])
    assert "approval.asked" in [kind for kind, _ in world.said]
    assert story.gates[0].answer == {"approve": "approved", "reject": "rejected", "": "expired"}[answer]


async def test_a_rung_is_asked_for_once_and_an_experiment_can_be_asked_for_alone(world: World) -> None:
    pieces = (
        piece("a"),
        piece("n1", "node"),
        piece("n2", "node"),
        piece("n3", "node", ask=False),
        piece("x", ask=True),
    )
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(world.here().run, plan(pieces=pieces, approvals=Approvals(before=("node",), within=100.0)))
        await anyio.sleep(15.0)
        assert world.names() == ["01-a"]
        world.order("reject")
        await anyio.sleep(15.0)
        world.order("approve")
    story = world.store.story(1)
    assert turns(story) == {
        "a": "PASS", "n1": "rejected by ada", "n2": "rejected by ada", "n3": "PASS", "x": "PASS"
    }  # fmt: skip
    assert [gate.name for gate in story.gates] == ["rung node", "5"]


# --- killed and started again ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["before the start", "before it was told to go"])
@pytest.mark.parametrize("nth", [0, 1, 2])
async def test_killed_between_intent_and_start_it_is_started_once(world: World, place: str, nth: int) -> None:
    world.here().die_at = lambda where: where == place and len(world.started) == nth
    with dying():
        await world.run(plan())
    assert len(world.store.attempts(1)) == nth + 1, "the intent was on record"
    story = await world.go_on()
    assert world.names() == ["01-a", "02-b", "03-c"]
    assert turns(story) == {"a": "PASS", "b": "PASS", "c": "PASS"}
    assert [attempt.attempt for attempt in story.attempts] == [1, 1, 1]


async def killed_after(world: World, seconds: float, *, down: float, **more: object) -> None:
    """A day whose process is killed, and is gone for some time; its child goes on."""
    with anyio.move_on_after(seconds):
        await world.here().run(plan(**more))
        raise AssertionError("the day was over before")
    assert world.store.day(1).state is DayState.RUNNING
    await anyio.sleep(down)


@pytest.mark.parametrize("down", [1.0, 100.0])
async def test_what_runs_is_found_again_or_judged_by_what_it_left(world: World, down: float) -> None:
    await killed_after(world, 13.0, down=down)
    story = await world.go_on()
    assert world.names() == ["01-a", "02-b", "03-c"]
    assert turns(story) == {"a": "PASS", "b": "PASS", "c": "PASS"}
    assert [attempt.orphaned for attempt in story.attempts] == [False, True, False]
    assert ("experiment.found" in [line.kind for line in story.lines]) is (down < 7)


async def test_an_abort_while_nobody_ran_the_day_ends_the_child_when_it_is_found(world: World) -> None:
    await killed_after(world, 13.0, down=1.0)
    world.store.order("abort", "", "ada", world.clock())
    story = await world.go_on()
    assert story.day.state is DayState.ABORTED
    assert turns(story) == {"a": "PASS", "b": "TERMINATED", "c": "aborted by ada"}


async def test_an_abort_that_was_heeded_stays_one_when_the_process_is_killed(world: World) -> None:
    with anyio.move_on_after(13.2):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(world.here().run, plan())
            await anyio.sleep(13.0)
            world.order("abort", "smoke")
            assert world.store.orders() == []
    assert world.store.day(1).state is DayState.RUNNING
    story = await world.go_on()
    assert story.day.state is DayState.ABORTED
    assert story.day.why == "aborted by ada: smoke"
    assert world.names() == ["01-a", "02-b"]


async def test_nothing_begins_that_was_paused_while_a_person_was_asked(world: World) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(world.here().run, plan("a", approvals=Approvals(before=("each",), within=100.0)))
        await anyio.sleep(5.0)
        world.order("pause")
        world.order("approve")
        await anyio.sleep(500.0)
        assert world.names() == []
        world.order("resume")
    assert turns(world.store.story(1)) == {"a": "PASS"}


async def test_nothing_begins_after_hours_because_a_person_was_slow(world: World) -> None:
    async with anyio.create_task_group() as tasks:
        it = plan("a", hours=Hours(end="09:35"), approvals=Approvals(before=("each",), within=1000.0), **zone())
        tasks.start_soon(world.here().run, it)
        await anyio.sleep(400.0)
        world.order("approve")
    assert "outside business hours" in turns(world.store.story(1))["a"]


@pytest.mark.parametrize(("policy", "names"), [("leave", 3), ("rerun", 4)])
async def test_what_was_cut_off_is_left_or_run_again_as_the_plan_says(world: World, policy: str, names: int) -> None:
    await killed_after(world, 13.0, down=1.0, interrupted=policy)
    world.children[world.started[-1]].cut = True
    story = await world.go_on()
    assert len(world.started) == names
    attempts = [attempt for attempt in story.attempts if attempt.number == 2]
    assert attempts[0].interrupted
    assert [attempt.attempt for attempt in attempts] == ([1] if policy == "leave" else [1, 2])
    assert outcome(story) == (Exit.INCONCLUSIVE if policy == "leave" else Exit.PASS)


async def test_a_heal_that_failed_while_nobody_watched_halts_the_day(world: World) -> None:
    world.codes["b"] = [4]
    await killed_after(world, 13.0, down=60.0)
    story = await world.go_on()
    assert story.day.state is DayState.HALTED
    assert world.names() == ["01-a", "02-b"]


async def test_approvals_keep_their_time_over_a_restart(world: World) -> None:
    await killed_after(world, 40.0, down=10.0, approvals=Approvals(before=("start",), within=60.0))
    story = await world.go_on()
    assert story.day.state is DayState.REFUSED
    assert (story.day.ended or 0) - story.day.started == pytest.approx(60.0)


# --- never two on one target -----------------------------------------------------------------------------------------


async def test_a_target_in_use_is_refused_by_name_of_who_has_it(world: World) -> None:
    other = Targets(world.place / "targets")
    holder = Holder(day="other", title="Another day", plan="/p/other.yaml", pid=4711)
    assert other.take(["/t/target.yaml"], holder) is None
    story = await world.here().run(plan())
    other.release()
    assert story.day.state is DayState.REFUSED
    assert "/t/target.yaml is in use by game day “Another day” (/p/other.yaml, pid 4711)" in story.day.why
    assert world.names() == []


async def test_a_day_may_wait_for_its_targets(world: World) -> None:
    other = Targets(world.place / "targets")
    assert other.take(["/t/target.yaml"], Holder(day="other", title="x", plan="y", pid=1)) is None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(world.here().run, plan("a", busy="wait"))
        await anyio.sleep(100.0)
        assert world.names() == []
        other.release()
    assert turns(world.store.story(1)) == {"a": "PASS"}


async def test_all_targets_are_taken_or_none(tmp_path: Path) -> None:
    one, two = Targets(tmp_path), Targets(tmp_path)
    holder = Holder(day="d", title="t", plan="p", pid=1)
    assert one.take(["b"], holder) is None
    busy = two.take(["a", "b"], holder)
    assert busy is not None
    assert busy.target == "b"
    assert two.files == []
    assert Targets(tmp_path).take(["a"], holder) is None


def test_the_clock_of_these_tests_is_berlins() -> None:
    assert at("2026-12-04T09:30") == 1796373000.0
