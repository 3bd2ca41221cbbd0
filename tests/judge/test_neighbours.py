"""A red on a busy machine says so, and is red all the same."""

from __future__ import annotations

import pytest

from chaos.errors import Exit
from chaos.judge import Contract, judge
from chaos.judge.neighbours import others

from .histories import Tape


def tape(*shares: float) -> Tape:
    found = Tape()
    found.add("run.started", experiment="e", seed=7)
    found.add("host.sampled", own=0.1, others=0.9)  # while it started: nothing is measured yet
    found.add("method.started")
    for share in shares:
        found.add("host.sampled", own=0.2, others=share)
    return found


@pytest.mark.parametrize(("shares", "mean"), [((), None), ((0.5,), 0.5), ((0.2, 0.6), 0.4)])
def test_the_mean_from_the_method_on(shares: tuple[float, ...], mean: float | None) -> None:
    assert others(tape(*shares).history) == pytest.approx(mean)


@pytest.mark.parametrize(("share", "said"), [(0.62, True), (0.1, False)])
def test_only_a_busy_machine_is_worth_a_word(share: float, said: bool) -> None:
    record = tape(share)
    record.add("target.finished", code=1, member="x")
    record.add("final.started", reason="finished")
    record.add("run.ended", reason="finished", detail="")
    result = judge(Contract(experiment="e", title="E"), record.history)
    assert result.exit is not Exit.PASS
    assert result.others == pytest.approx(share)
    assert ("other work took 62 % of this machine's processors" in result.headline) is said
