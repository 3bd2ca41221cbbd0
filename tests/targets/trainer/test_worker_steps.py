"""Steps that faults hit, of one real rank in this process: what counts in the end, and what is left of the fault."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist

from chaos import inside
from targets.trainer import defects
from targets.trainer.settings import Settings
from targets.trainer.worker import group as groups
from targets.trainer.worker.data import Corpus
from targets.trainer.worker.group import Group
from targets.trainer.worker.model import CONTEXT
from targets.trainer.worker.state import shard
from targets.trainer.worker.trainer import Corrupted, Done, Trainer

pytestmark = pytest.mark.slow  # torch is imported
BEFORE, AFTER = 4, 2  # steps before the one that is hit, and after it
HIT = BEFORE + 1
FLIP = {"do": "flip", "bit": 30, "times": 1}

Arm = Callable[..., list[dict[str, Any]]]
Make = Callable[..., Trainer]


@pytest.fixture(scope="module")
def group() -> Iterator[Group]:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as a worker has it
    yield groups.form(0, 1, ("127.0.0.1", port), address="127.0.0.1", timeout=20)
    dist.destroy_process_group()
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return Corpus(Settings().dataset, CONTEXT)


@pytest.fixture
def make(group: Group, corpus: Corpus) -> Make:
    def made(defect: str = "none") -> Trainer:
        trainer = Trainer(group, corpus, Settings(defect=defect), epoch=1)
        trainer.state.initialise_optimizer()
        return trainer

    return made


@pytest.fixture
def arm(monkeypatch: pytest.MonkeyPatch) -> Iterator[Arm]:
    """Arms a hook in this process, as its thread would; gives back the list that hits go to."""
    hits: list[dict[str, Any]] = []
    monkeypatch.setattr(inside, "_tell", lambda kind, **data: hits.append({"kind": kind, **data}))

    def armed(site: str, **change: Any) -> list[dict[str, Any]]:
        inside._hooks.setdefault(site, []).append(inside._Hook(1, {"where": {"step": HIT}, **change}))
        return hits

    yield armed
    inside._hooks.clear()


def run(trainer: Trainer, steps: int) -> list[Done]:
    return [trainer.advance() for _ in range(steps)]


def fingerprint(trainer: Trainer) -> Any:
    return trainer.state.fingerprint()


@pytest.fixture
def golden(make: Make) -> Any:
    """The state after all steps of a run that nothing hit."""
    trainer = make()
    assert {done.attempt for done in run(trainer, BEFORE + 1 + AFTER)} == {0}
    return fingerprint(trainer)


@pytest.mark.parametrize(
    ("site", "change"),
    [
        ("gradient", FLIP),
        ("gradient", {"do": "set", "word": 0x7FC00000, "times": 1}),
        ("activation", FLIP),
        ("activation", {"do": "scale", "factor": 1e4, "times": 1, "where": {"step": HIT, "layer": "head"}}),
    ],
    ids=["flipped gradient", "NaN in a gradient", "flipped activation", "scaled activations"],
)
def test_a_value_that_came_out_wrong_once_leaves_no_trace(
    make: Make, arm: Arm, golden: Any, site: str, change: dict[str, Any]
) -> None:
    trainer = make()
    run(trainer, BEFORE)
    hits = arm(site, **change)
    (done,) = run(trainer, 1)
    print(hits)
    assert [hit["kind"] for hit in hits] == ["hit"]
    assert (done.attempt, done.blamed) == (1, 0)
    run(trainer, AFTER)
    assert fingerprint(trainer) == golden


@pytest.mark.parametrize("defect", [defects.NO_REPLAY, defects.NAN_COMMITTED])
def test_the_deliberate_bugs_take_it(make: Make, arm: Arm, golden: Any, defect: str) -> None:
    trainer = make(defect)
    run(trainer, BEFORE)
    arm("gradient", do="set", word=0x7FC00000, times=1)
    (done,) = run(trainer, 1)
    assert (done.attempt, done.blamed) == (0, None)
    run(trainer, AFTER)
    assert fingerprint(trainer) != golden


@pytest.mark.parametrize("site", ["weight", "moment"])
@pytest.mark.parametrize("bit", [0, 30])
def test_memory_that_changed_between_two_steps_is_never_used(make: Make, arm: Arm, site: str, bit: int) -> None:
    trainer = make()
    run(trainer, BEFORE)
    arm(site, do="flip", bit=bit, times=1)
    with pytest.raises(Corrupted, match="rank 0: its memory changed"):
        trainer.advance()


def test_a_batch_that_was_read_wrong_once_is_read_again(make: Make, arm: Arm, golden: Any) -> None:
    trainer = make()
    run(trainer, BEFORE)
    arm("batch", do="cut", keep=0.5, times=1)
    (done,) = run(trainer, 1)
    assert (done.read, done.attempt) == (2, 0)
    run(trainer, AFTER)
    assert fingerprint(trainer) == golden


def test_one_that_stays_wrong_is_left_out_and_its_samples_are_told(make: Make, arm: Arm) -> None:
    trainer, other = make(), make()
    expected = run(other, BEFORE + 1)[-1].samples
    run(trainer, BEFORE)
    weights = [shard(p).clone() for p in trainer.state.model.parameters()]
    arm("batch", do="garble", share=0.5, times=2)
    (done,) = run(trainer, 1)
    assert (done.loss, done.samples, done.quarantined) == (None, [], expected)
    assert all(w.equal(shard(p)) for w, p in zip(weights, trainer.state.model.parameters(), strict=True))
    assert trainer.state.cursor == other.state.cursor
    assert trainer.state.schedule.taken == other.state.schedule.taken
    assert run(trainer, 1)[0].loss is not None


def test_what_stays_wrong_however_often_it_is_computed_is_left_out_where_nobody_can_compare(
    make: Make, arm: Arm
) -> None:
    trainer = make()
    run(trainer, BEFORE)
    arm("gradient", do="stick", bit=30, value=1)
    (done,) = run(trainer, 1)
    assert done.quarantined
    assert done.blamed is None


def test_a_canary_sees_a_wrong_weight_of_any_rank(make: Make) -> None:
    trainer = make()
    before = trainer.canary()
    weight = shard(trainer.state.model.head.weight)
    weight.data.view(-1)[5] *= -1
    assert trainer.canary() != before


def test_spans_grow_with_the_steps_and_hold_the_wait_for_a_batch(make: Make, arm: Arm) -> None:
    trainer = make()
    run(trainer, BEFORE)
    steps, computing, loading = trainer.spans
    assert steps == BEFORE
    assert computing > 0
    arm("batch", do="delay", seconds=0.2, times=1)
    run(trainer, 1)
    assert trainer.spans[2] - loading >= 0.2
