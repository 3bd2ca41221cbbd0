"""Groups that go on with the state that their members hold, beyond the last checkpoint."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from judge.histories import Tape

from chaos.invariants.exactly_once_data import ExactlyOnceData
from chaos.invariants.fenced_writer import FencedWriter
from chaos.invariants.newest_good_restored import NewestGoodRestored
from chaos.invariants.one_generation import OneGeneration
from chaos.invariants.rank_agreement import RankAgreement
from chaos.invariants.state_complete import StateComplete
from chaos.judge.recovery import measure
from chaos.result import Need
from chaos.verdict import Outcome


def live(tape: Tape, epoch: int, world: int, generation: int, step: int, action: str, **of_rank: Any) -> None:
    """A group that goes on at `step`; `of_rank` replaces parts of the state of the last rank."""
    tape.add("epoch.issued", "store", epoch=epoch, holder="coordinator-0", reason=action)
    tape.wait(0.2).add("group.forming", "coordinator-0", epoch=epoch, world=4, nodes=[], reason=action)
    tape.add("recovery.action", "coordinator-0", action=action, epoch=epoch, world=world)
    facts: dict[str, Any] = {
        "nodes": [f"n{r}" for r in range(world)],
        "generation": generation,
        "step": step,
        "live": True,
    }
    tape.add("group.formed", "coordinator-0", epoch=epoch, world=world, **facts)
    tape.wait(0.1)
    for rank in range(world):
        state = tape.state(step, rank) | (of_rank if rank == world - 1 else {})
        tape.add("state.resumed", f"worker-n{rank}", step=step, rank=rank, world=world, epoch=epoch, state=state)


def leave_and_rejoin(step: int = 29, **of_rank: Any) -> Tape:
    """A replica of two is lost at step 30 and is back at step 40; the other goes on from `step`."""
    tape = Tape().start().train(1, 20)
    tape.save(1, 20)
    tape.train(21, 30)
    tape.fault("process.kill", "worker-n2")
    tape.wait(0.1).detect("worker-n2")
    live(tape, 2, 2, 1, step, "replica-leave")
    tape.train(step + 1, 40, epoch=2, world=2).save(2, 40, epoch=2, world=2)
    live(tape, 3, 4, 2, 40, "replica-rejoin", **of_rank)
    return tape.train(41, 60, epoch=3).done(60)


@pytest.mark.parametrize(
    "invariant",
    [ExactlyOnceData(), FencedWriter(attempt="optional"), NewestGoodRestored(), RankAgreement(), StateComplete()],
    ids=lambda i: i.id,
)
def test_a_replica_that_leaves_and_rejoins_breaks_no_promise(invariant: Any) -> None:
    verdict = invariant.check(leave_and_rejoin().history)
    assert verdict.outcome is Outcome.PASS, verdict.reason


def test_nobody_has_to_say_which_generation_was_restored_where_none_was() -> None:
    assert OneGeneration().check(leave_and_rejoin().history).reason == "nothing was restored from a checkpoint"


def test_live_state_behind_the_newest_checkpoint_is_an_old_one() -> None:
    verdict = NewestGoodRestored().check(leave_and_rejoin(step=15).history)
    assert verdict.outcome is Outcome.FAIL
    assert "epoch 2 went on from step 15 though generation 1 (step 20) was committed" in verdict.reason


def test_ranks_that_hold_another_step_than_their_group_goes_on_from_are_found() -> None:
    tape = leave_and_rejoin()
    tape.events = [
        msgspec.structs.replace(e, data={**e.data, "step": 20}) if e.kind == "state.resumed" else e for e in tape.events
    ]
    verdict = NewestGoodRestored().check(tape.history)
    assert verdict.outcome is Outcome.FAIL
    assert "held after step 29, and rank 0 held that after step 20" in verdict.reason


def test_live_state_of_which_its_ranks_say_nothing_is_unknown() -> None:
    tape = leave_and_rejoin().drop(lambda e: e.kind == "state.resumed" and e.get("rank") == 1 and e.get("epoch") == 2)
    verdict = NewestGoodRestored().check(tape.history)
    assert verdict.outcome is Outcome.UNKNOWN
    assert "nobody knows what the ranks 1 of epoch 2 went on with" in verdict.reason


def test_a_replica_that_rejoins_with_another_schedule_disagrees() -> None:
    verdict = RankAgreement().check(leave_and_rejoin(schedule="stale").history)
    assert verdict.outcome is Outcome.FAIL
    assert verdict.reason == "the ranks of epoch 3 resumed step 40 with different schedule"


def test_what_it_cost_is_the_step_that_was_repeated_and_the_rejoin_is_no_failure() -> None:
    lost, planned = measure(leave_and_rejoin().history)
    assert (lost.need, lost.world, lost.lost_steps, lost.generation) == (Need.FAILURE, (4, 2), 1, 1)
    assert lost.restart == pytest.approx(0.2, abs=0.05)
    assert lost.load == pytest.approx(0.1, abs=0.05)
    assert (planned.need, planned.world, planned.lost_steps) == (Need.PLANNED, (2, 4), 0)
