"""What a step looks like, and what a normal one must not be taken for."""

from __future__ import annotations

import math
import random

import pytest

from targets.trainer.worker.monitors import EXPLODING, NAN, NORMAL, PLATEAU_STEPS, SPIKE, WINDOW, Monitors, Reading

WORLD = 3


def readings(healthy: float = 1.0, /, **odd: float) -> list[Reading]:
    """Of a step whose gradients have that norm, but for rank 1."""
    own = Reading(odd.get("loss", 3.0), odd.get("norm", healthy), 1)
    return [own if rank == 1 else Reading(3.0, healthy, 0) for rank in range(WORLD)]


@pytest.fixture
def seasoned() -> Monitors:
    monitors = Monitors()
    for _ in range(WINDOW):
        monitors.note(readings())
    return monitors


@pytest.mark.parametrize(
    ("odd", "signature"),
    [
        ({"loss": math.nan}, NAN), ({"norm": math.inf}, NAN), ({"norm": 1e33}, EXPLODING), ({"norm": 11.0}, EXPLODING),
        ({"norm": 4.0}, SPIKE), ({"loss": 7.0}, SPIKE), ({"loss": 4.5, "norm": 2.5}, NORMAL), ({"norm": 0.01}, NORMAL),
    ],
)  # fmt: skip
def test_each_signature(seasoned: Monitors, odd: dict[str, float], signature: str) -> None:
    step = readings(**odd)
    assert seasoned.signature(step) == signature
    if signature != NORMAL:
        assert seasoned.outstanding(step) == 1


def test_from_the_first_step_on_the_ranks_are_compared_with_each_other() -> None:
    fresh = Monitors()
    assert fresh.signature([*readings(50.0), Reading(3.0, 1e9, 2)]) == EXPLODING
    assert fresh.signature(readings(50.0)) == NORMAL


def test_two_ranks_alone_say_nothing_of_each_other_at_first() -> None:
    assert Monitors().signature([Reading(3.0, 1.0, 0), Reading(3.0, 2.0, 1)]) == NORMAL


def test_a_loss_that_falls_with_noise_is_normal_at_every_step() -> None:
    dice, monitors = random.Random(7), Monitors()
    for step in range(300):
        loss = 2.0 + 4.0 * math.exp(-step / 40)
        now = [Reading(loss * dice.uniform(0.8, 1.25), dice.uniform(0.5, 1.5), 0) for _ in range(WORLD)]
        assert monitors.signature(now) == NORMAL
        assert not monitors.note(now)


def test_a_loss_that_stands_still_is_told_once_for_each_stretch() -> None:
    monitors = Monitors()
    told = [monitors.note(readings()) for _ in range(4 * PLATEAU_STEPS)]
    assert [number for number, plateau in enumerate(told, 1) if plateau] == [2 * PLATEAU_STEPS, 4 * PLATEAU_STEPS]
