"""Who is named, who must go, and which states may be saved."""

from __future__ import annotations

from typing import Any, cast

import anyio
import pytest

from targets.trainer import defects
from targets.trainer.coordinator.crew import Crew, Group
from targets.trainer.coordinator.failure import Failure
from targets.trainer.coordinator.suspicion import Suspicion
from targets.trainer.coordinator.validation import agreed, sane
from targets.trainer.settings import Settings
from targets.trainer.wire import Frame

from .cluster import record


def test_a_node_is_guilty_when_it_is_named_for_a_second_step() -> None:
    suspicion = Suspicion(Settings())
    assert suspicion.name("n2", 1, 35)
    assert not suspicion.name("n2", 1, 35)  # every rank says so
    assert not suspicion.guilty("n2", present=3)
    assert suspicion.name("n2", 2, 35)
    assert suspicion.guilty("n2", present=3)
    suspicion.exclude("n2")
    assert not suspicion.guilty("n2", present=3)


def test_others_are_not_guilty_of_it_and_the_last_ones_stay() -> None:
    suspicion = Suspicion(Settings(min_world=2))
    for step in (35, 36):
        suspicion.name("n2", 1, step)
    assert not suspicion.guilty("n1", present=3)
    assert not suspicion.guilty("n2", present=2)


@pytest.mark.parametrize(("defect", "times", "guilty"), [
    (defects.BLAMES_WITHOUT_EVIDENCE, 1, True), (defects.DEVICE_KEPT, 5, False),
])  # fmt: skip
def test_deliberate_bugs(defect: str, times: int, guilty: bool) -> None:
    suspicion = Suspicion(Settings(defect=defect))
    for step in range(times):
        suspicion.name("n2", 1, step)
    assert suspicion.guilty("n2", present=3) is guilty


class TestCanary:
    @pytest.fixture
    def anyio_backend(self) -> str:
        return "asyncio"

    def judge(self, monkeypatch: pytest.MonkeyPatch, *losses: float, defect: str = "none") -> float | None:
        events = record(monkeypatch)

        async def run() -> float | None:
            crew = Crew(Settings(defect=defect), cast(Any, None))
            group = crew.group = Group(1, [f"n{rank}" for rank in range(len(losses))], 0, 0)
            ready = [Frame({"rank": rank, "step": 20, "canary": loss}) for rank, loss in enumerate(losses)]
            return agreed(crew, group, ready)

        try:
            return anyio.run(run)
        finally:
            self.detected = events.of("failure.detected")

    def test_ranks_that_agree_may_save(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert self.judge(monkeypatch, 2.5, 2.5, 2.5) == 2.5

    def test_one_that_does_not_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(Failure, match="do not agree on the canary"):
            self.judge(monkeypatch, 2.5, 2.5000000001, 2.5)
        assert self.detected[0]["member"] == "worker-n1"

    def test_a_state_that_is_no_number_is_not_saved(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(Failure, match="the canary's loss is nan"):
            self.judge(monkeypatch, float("nan"), float("nan"))
        assert str(self.judge(monkeypatch, float("nan"), defect=defects.NAN_COMMITTED)) == "nan"

    @pytest.mark.parametrize(("loss", "saved", "good"), [
        (2.5, 2.5, True), (2.50001, 2.5, True), (2.51, 2.5, False), (float("nan"), 2.5, False), (None, 2.5, False),
        (2.5, None, True), (float("inf"), None, False),
    ])  # fmt: skip
    def test_a_restored_state_must_have_the_loss_it_was_saved_with(
        self, loss: float | None, saved: float | None, good: bool
    ) -> None:
        assert sane(loss, saved) is good
