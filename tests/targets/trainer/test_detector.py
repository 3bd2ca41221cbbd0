"""Detection by a clock that the test turns: whom it names and when, and whom it leaves alone."""

from __future__ import annotations

import random
from typing import Any

import pytest

from targets.trainer.coordinator.detector import Heartbeats, Progress
from targets.trainer.settings import Settings


class Clock:
    """Seconds that pass when told."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def beating(clock: Clock, gaps: list[float], **settings: Any) -> Heartbeats:
    """A watch over the member `m` that beat with those gaps."""
    heartbeats = Heartbeats(Settings(**settings), clock)
    heartbeats.watch("m")
    for gap in gaps:
        clock.now += gap
        heartbeats.beat("m")
    return heartbeats


def test_silence_is_first_suspected_then_confirmed(clock: Clock) -> None:
    heartbeats = beating(clock, [0.25] * 10, member_ttl=2.0)
    found = []
    for _ in range(300):
        clock.now += 0.01
        found += heartbeats.silent()
    assert [(s.member, s.confirmed) for s in found[:2]] == [("m", False), ("m", True)]
    assert all(s.confirmed for s in found[1:])  # named until forgotten
    assert found[0].seconds == pytest.approx(0.75, abs=0.011)  # σ is 0: the floor
    assert found[1].seconds == pytest.approx(2.0, abs=0.011)


def test_a_member_that_beats_again_is_suspected_again_only_after_a_longer_silence(clock: Clock) -> None:
    heartbeats = beating(clock, [0.25] * 10)
    for silence in (0.8, 1.0):  # the first one has become one of its gaps
        clock.now += silence
        assert silence == 0.8 or heartbeats.patience("m") > 0.8
        assert [s.confirmed for s in heartbeats.silent()] == [False]
        assert heartbeats.silent() == []
        heartbeats.beat("m")


def test_patience_is_heartbeat_plus_k_sigma_of_the_members_own_gaps(clock: Clock) -> None:
    steady = beating(clock, [0.25] * 20)
    jittery = beating(clock, [0.05, 0.45] * 10)  # σ = 0.2
    assert steady.patience("m") == 0.75
    assert jittery.patience("m") == pytest.approx(0.25 + 4 * 0.2)
    assert beating(clock, [0.05, 0.45] * 10, suspect_k=100, suspect_ceiling=1.5).patience("m") == 1.5


def test_old_gaps_are_forgotten(clock: Clock) -> None:
    assert beating(clock, [0.05, 0.45] * 10 + [0.25] * 32).patience("m") == 0.75


def test_a_jittery_but_living_member_is_never_confirmed(clock: Clock) -> None:
    dice = random.Random(7)
    heartbeats = beating(clock, [])
    for _ in range(1000):
        clock.now += 0.25 + dice.expovariate(1 / 0.15)
        assert not [s for s in heartbeats.silent() if s.confirmed]
        heartbeats.beat("m")


def test_who_is_forgotten_is_not_missed(clock: Clock) -> None:
    heartbeats = beating(clock, [0.25])
    heartbeats.forget("m")
    heartbeats.beat("m")
    clock.now += 10
    assert heartbeats.silent() == []


def training(clock: Clock, steps: dict[int, int], **settings: Any) -> Progress:
    """A watch over ranks that have started and completed that many steps."""
    progress = Progress(Settings(**settings), clock)
    for rank, step in steps.items():
        for at in range(step + 1):
            progress.note(rank, at, "training")
    return progress


def test_a_stall_names_the_rank_that_is_furthest_behind(clock: Clock) -> None:
    progress = training(clock, {0: 9, 1: 8, 2: 9})
    clock.now += 5.9
    assert progress.stalled() is None
    clock.now += 0.2
    stalled = progress.stalled()
    assert stalled is not None
    assert stalled[0] == 1
    assert stalled[1] == pytest.approx(6.1)


def test_nothing_stalls_while_one_rank_still_gets_on(clock: Clock) -> None:
    progress = training(clock, {0: 9, 1: 8})
    clock.now += 5
    progress.note(1, 9, "training")
    clock.now += 5
    assert progress.stalled() is None


def test_a_long_checkpoint_is_no_stall(clock: Clock) -> None:
    progress = training(clock, {0: 9, 1: 9})
    for rank in (0, 1):
        progress.note(rank, 9, "saving")
    clock.now += 19
    assert progress.stalled() is None
    clock.now += 2
    assert progress.stalled() is not None


def test_the_first_step_after_a_start_may_take_longer(clock: Clock) -> None:
    progress = Progress(Settings(), clock)
    for phase in ("starting", "loading", "training"):
        progress.note(0, 40, phase)
    clock.now += 29
    assert progress.stalled() is None
    progress.note(0, 41, "training")
    clock.now += 7
    assert progress.stalled() is not None


def test_the_same_word_again_is_no_progress(clock: Clock) -> None:
    progress = training(clock, {0: 9})
    for _ in range(70):
        clock.now += 0.1
        progress.note(0, 9, "training")
    assert progress.stalled() is not None


def test_a_short_timeout_takes_a_checkpoint_for_a_stall(clock: Clock) -> None:
    progress = training(clock, {0: 9, 1: 9}, defect="short-timeout")
    for rank in (0, 1):
        progress.note(rank, 9, "saving")
    clock.now += 0.5
    assert progress.stalled() is not None


def test_without_detection_nobody_is_missed(clock: Clock) -> None:
    heartbeats = beating(clock, [0.25], defect="no-detection")
    progress = training(clock, {0: 9}, defect="no-detection")
    clock.now += 1000
    assert heartbeats.silent() == []
    assert progress.stalled() is None
