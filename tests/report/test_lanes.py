from __future__ import annotations

import pytest

from chaos.history import Event, History
from chaos.report.lanes import Lane, bands, lanes

from .scripted import Script


def lane(events: list[Event], name: str) -> Lane:
    found, _ = lanes(History(events))
    return next(lane for lane in found if lane.name == name)


def spans(events: list[Event], name: str) -> list[tuple[float, float, str, int | None]]:
    return [(s.begin, s.end, s.state, s.epoch) for s in lane(events, name).spans]


def test_a_life_is_cut_where_the_epoch_changes(events: list[Event]) -> None:
    first, second, third = spans(events, "worker-n0")
    assert (first[2:], second[2:], third[2:]) == (("alive", None), ("alive", 1), ("alive", 2))
    assert first[1] == second[0]
    assert second[1] == third[0]


def test_a_death_is_shown_until_the_successor_starts() -> None:
    tell = Script()
    tell(0.0, "w", "member.started", member="w", pid=1, role="worker", node="n0")
    tell(2.0, "harness", "member.exited", member="w", pid=1, code=-9)
    tell(5.0, "w", "member.started", member="w", pid=2, role="worker", node="n0")
    tell(9.0, "harness", "run.ended", reason="finished")
    assert spans(tell.events, "w") == [(0, 2, "alive", None), (2, 5, "dead", None), (5, 9, "alive", None)]
    assert lane(tell.events, "w").spans[1].why == "SIGKILL"


def test_an_end_that_nobody_saw_is_no_death() -> None:
    tell = Script()
    tell(0.0, "w", "member.started", member="w", pid=1)
    tell(1.0, "harness", "member.exited", member="w", pid=1, code=None)
    tell(2.0, "harness", "run.ended")
    assert [s.state for s in lane(tell.events, "w").spans] == ["alive", "gone"]


def test_a_freeze_ends_with_its_own_heal() -> None:
    tell = Script()
    tell(0.0, "w", "member.started", member="w", pid=1)
    tell(1.0, "fault:a", "fault.landed", kind="process.freeze", members=["w"])
    tell(2.0, "fault:b", "fault.healed", kind="process.freeze")
    tell(2.5, "s", "epoch.issued", epoch=4, holder="w")
    tell(3.0, "fault:a", "fault.healed", kind="process.freeze")
    tell(4.0, "harness", "run.ended")
    assert [(s.begin, s.end, s.state) for s in lane(tell.events, "w").spans] == [
        (0, 1, "alive"), (1, 2.5, "frozen"), (2.5, 3, "frozen"), (3, 4, "alive"),
    ]  # fmt: skip


def test_one_who_died_frozen_stays_dead() -> None:
    tell = Script()
    tell(0.0, "w", "member.started", member="w", pid=1)
    tell(1.0, "fault:a", "fault.landed", kind="process.freeze", members=["w"])
    tell(2.0, "harness", "member.exited", member="w", pid=1, code=-9)
    tell(3.0, "fault:a", "fault.healed", kind="process.freeze")
    tell(4.0, "harness", "run.ended")
    assert [s.state for s in lane(tell.events, "w").spans] == ["alive", "frozen", "dead"]


def test_a_band_reaches_from_landing_to_heal(events: list[Event]) -> None:
    (band,) = bands(History(events))
    assert (band.step, band.kind, band.members, band.healed) == (
        "network.partition", "network.partition", ("worker-n2",), True,
    )  # fmt: skip
    landed, healed = (next(e.t for e in events if e.kind == f"fault.{what}") for what in ("landed", "healed"))
    assert (band.begin, band.end) == (landed, healed)


def test_a_fault_that_was_not_healed_reaches_to_the_end_and_an_instant_one_does_not() -> None:
    tell = Script()
    tell(1.0, "fault:a", "fault.landed", kind="process.freeze", members=["w"])
    tell(2.0, "fault:k", "fault.landed", kind="process.kill", members=["w"], instant=True)
    tell(9.0, "harness", "run.ended")
    assert [(b.step, b.begin, b.end, b.healed) for b in bands(History(tell.events))] == [
        ("a", 1.0, 9.0, False), ("k", 2.0, 2.0, True),
    ]  # fmt: skip


def test_a_flood_of_one_kind_is_one_mark_a_spot_with_its_count() -> None:
    tell = Script()
    tell(0.0, "store", "member.started", member="store", pid=1)
    for i in range(10_000):
        tell(1 + i / 10_000, "store", "write.rejected", op="put", reason="stale-epoch")
    tell(10.0, "harness", "run.ended")
    marks = [m for m in lane(tell.events, "store").marks if m.kind == "write.rejected"]
    assert len(marks) <= 42
    assert sum(m.times for m in marks) == 10_000


def test_a_restart_loop_stays_drawable_and_keeps_its_long_stretches() -> None:
    tell = Script()
    for i in range(20_000):
        tell(i * 0.01, "w", "member.started", member="w", pid=i)
        tell(i * 0.01 + 0.005, "harness", "member.exited", member="w", pid=i, code=1)
    tell(1000.0, "harness", "run.ended", reason="finished")
    drawn = lane(tell.events, "w")
    assert len(drawn.spans) <= 2000
    assert {s.state for s in drawn.spans if s.end < 100} == {"alive", "dead"}
    assert max(s.end - s.begin for s in drawn.spans) == pytest.approx(800, abs=1)
    assert sum(m.times for m in drawn.marks) == 20_000


def test_a_freeze_of_the_dead_changes_nothing() -> None:
    tell = Script()
    tell(0.0, "w", "member.started", member="w", pid=1)
    tell(1.0, "harness", "member.exited", member="w", pid=1, code=-9)
    tell(2.0, "fault:a", "fault.landed", kind="process.freeze", members=["w"])
    tell(3.0, "harness", "run.ended")
    assert [s.state for s in lane(tell.events, "w").spans] == ["alive", "dead"]


def test_many_members_are_cut_to_those_with_events() -> None:
    tell = Script()
    for i in range(200):
        tell(0.0, f"w{i}", "member.started", member=f"w{i}", pid=i)
    tell(1.0, "harness", "member.exited", member="w150", pid=150, code=1)
    found, hidden = lanes(History(tell.events))
    assert found[0].name == "harness"
    assert "w150" in [lane.name for lane in found]
    assert len(found) + hidden == 201
    assert len(found) <= 60


def test_an_empty_history_has_no_members() -> None:
    found, hidden = lanes(History())
    assert [lane.name for lane in found] == ["harness"]
    assert hidden == 0
    assert bands(History()) == ()


def test_more_members_than_marks_are_drawn_all_the_same() -> None:
    tell = Script()
    for i in range(700):
        tell(0.0, f"w{i}", "member.started", member=f"w{i}", pid=i)
        tell(1.0 + i / 1000, f"w{i}", "failure.detected", member="x")
        tell(2.0 + i / 1000, "harness", "member.exited", member=f"w{i}", pid=i, code=1)
    tell(3.0, "harness", "run.ended")
    found, more = lanes(History(tell.events), 300, 100)
    assert len(found) + more == 701
    assert sum(len(one.marks) for one in found) == 100
