"""All dice are thrown in the plan, and the plan refuses what it can know to be wrong."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import msgspec
import pytest

from chaos.api import Fault, Landing, Links, Selection, Selector, Signals, Slot
from chaos.errors import SpecError
from chaos.experiment import Budget, Experiment, Limits, Schedule, Step, TargetSpec, fault_of
from chaos.plan import in_words, plan, preview
from chaos.trigger import After, AnyTrigger, At, Condition, Every, OnEvent, OnLog, OnPoint, OnProbe, Poisson

SLOTS = (
    *(Slot(name=f"worker-{i}", role="worker", node=f"n{i}", rank=i, domains={"rack": f"r{i // 4}"}) for i in range(8)),
    Slot(name="store", role="store", node="s0"),
)


class Hit(Fault[Signals], frozen=True, kw_only=True):
    """Hit members."""

    fidelity: ClassVar[str] = "none"
    members: Selector

    def selectors(self) -> tuple[Selector, ...]:
        return (self.members,)

    @asynccontextmanager
    async def inject(self, target: Signals, *hit: Selection) -> AsyncIterator[Landing]:
        yield Landing({})


class Kill(Hit, frozen=True, kw_only=True):
    """Hit members at one instant."""

    instant: ClassVar[bool] = True


class Partition(Fault[Links], frozen=True, kw_only=True):
    """Part two sides."""

    fidelity: ClassVar[str] = "none"
    between: tuple[Selector, Selector]

    def selectors(self) -> tuple[Selector, ...]:
        return self.between

    @asynccontextmanager
    async def inject(self, target: Links, *hit: Selection) -> AsyncIterator[Landing]:
        yield Landing({})


def step(name: str, when: AnyTrigger, hold: float | None = 5.0, fault: type[Hit] = Hit, **selector: Any) -> Step:
    members = Selector(**(selector or {"names": ("worker-0",)}))
    return Step(name=name, kind=name, fault=fault(members=members), when=when, hold=hold)


def experiment(*method: Step, **limits: Any) -> Experiment:
    target = TargetSpec(
        name="trainer",
        path="target.yaml",
        driver="process",
        settings={"nodes": 8},
        slots=SLOTS,
        events={},
        points={},
        recovery_paths=(),
        ends=True,
        raw={},
    )
    return Experiment(
        name="x",
        path="x.yaml",
        title="",
        description="",
        tags=(),
        target=target,
        seed=7,
        steady=(),
        method=method,
        budget=Budget(),
        invariants=(),
        abort=(),
        limits=Limits(**limits),
    )


def names(schedule: Schedule) -> list[Any]:
    return [action.settings["members"].get("names") for action in schedule.actions]


DRAWN: dict[str, Any] = {"random": 2, "roles": ("worker",)}


def test_the_same_seed_gives_the_same_schedule_and_another_seed_another() -> None:
    it = experiment(step("a", Poisson(rate=0.1), **DRAWN), step("b", At(seconds=1), percent=0.5, nodes=("n1", "n2")))
    assert plan(it) == plan(it)
    assert plan(it) == plan(it, seed=7)
    assert plan(it) != plan(it, seed=8)


def test_a_step_more_changes_nothing_for_the_others() -> None:
    a, b = step("a", At(seconds=1), **DRAWN), step("b", Poisson(rate=0.05), **DRAWN)
    assert plan(experiment(a, b)).actions == plan(experiment(a)).actions + plan(experiment(b)).actions


def test_no_dice_are_left_and_the_schedule_survives_its_file() -> None:
    cut = Partition(between=(Selector(random=1, roles=("worker",)), Selector(rest=True)))
    it = experiment(
        step("a", Poisson(rate=0.1), percent=0.25, roles=("worker",)),
        Step(name="cut", kind="network.partition", fault=cut, when=OnPoint(point="p"), hold=None),
    )
    schedule = plan(it)
    text = msgspec.json.encode(schedule)
    assert b'"random"' not in text
    assert b'"percent"' not in text
    again = msgspec.json.decode(text, type=Schedule)
    assert again == schedule
    assert fault_of(again.actions[-1], it).selectors()[1] == Selector(rest=True)


def test_random_draws_that_many_and_percent_that_share_but_at_least_one() -> None:
    def drawn(**selector: Any) -> int:
        return len(names(plan(experiment(step("a", At(seconds=1), **selector))))[0])

    assert drawn(random=3) == 3
    assert drawn(percent=0.5, roles=("worker",)) == 4
    assert drawn(percent=0.3, roles=("worker",)) == 2
    assert drawn(percent=0.01) == 1
    assert drawn(percent=1.0) == 9


def test_every_candidate_is_drawn_sometimes_and_no_other() -> None:
    it = experiment(step("a", At(seconds=1), random=1, domains={"rack": "r1"}))
    assert {names(plan(it, seed=s))[0][0] for s in range(60)} == {f"worker-{i}" for i in range(4, 8)}


def test_each_time_a_repeated_step_draws_anew() -> None:
    it = experiment(step("a", Every(period=10.0), random=1))
    assert len(set(map(tuple, names(plan(it))))) > 3


def test_every_is_absolute_and_ends_with_the_run_or_its_count() -> None:
    moments = [a.when for a in plan(experiment(step("a", Every(period=30.0, delay=1.0)), wall=100.0)).actions]
    assert moments == [At(seconds=30.0, delay=1.0), At(seconds=60.0, delay=1.0), At(seconds=90.0, delay=1.0)]
    assert len(plan(experiment(step("a", Every(period=10.0, times=2)))).actions) == 2


def test_arrivals_have_the_rate_and_do_not_overlap() -> None:
    it = experiment(step("a", Poisson(rate=0.1), hold=None, fault=Kill), wall=20_000.0)
    moments = [a.when.seconds for a in plan(it).actions if isinstance(a.when, At)]
    assert len(moments) == pytest.approx(2000, rel=0.1)
    held = [
        a.when.seconds
        for a in plan(experiment(step("a", Poisson(rate=0.1), hold=8.0), wall=20_000.0)).actions
        if isinstance(a.when, At)
    ]
    assert all(later - earlier >= 8.0 for earlier, later in itertools.pairwise(held))


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (step("a", At(seconds=1), roles=("gpu",)), "selects no member"),
        (step("a", At(seconds=1), nodes=("n1",), ranks=(2,)), "selects no member"),
        (step("a", At(seconds=1), nodes=("n9",)), "selects no member"),
        (step("a", At(seconds=1), random=1, roles=("gpu",)), "selects no member"),
        (step("a", At(seconds=1), random=10), "asks for 10 of 9 members"),
        (step("a", At(seconds=1), random=0), "asks for 0 of 9 members"),
        (step("a", At(seconds=1), percent=1.5), "asks for 13 of 9 members"),
        (step("a", Every(period=5.0), hold=5.0), "the hold must be shorter"),
        (step("a", Every(period=5.0), hold=None), "needs a `hold`"),
        (step("a", Poisson(rate=1.0), hold=None), "needs a `hold`"),
        (step("a", Poisson(rate=0.0)), "more than 0"),
        (step("a", Every(period=0.001), fault=Kill), "more than 10000 injections"),
    ],
)
def test_what_cannot_be_carried_out_is_refused(wrong: Step, says: str) -> None:
    with pytest.raises(SpecError, match=says) as caught:
        plan(experiment(wrong))
    assert str(caught.value).startswith("x.yaml: step a: ")


def test_all_reasons_are_given_at_once() -> None:
    with pytest.raises(SpecError) as caught:
        plan(experiment(step("a", At(seconds=1), random=10), step("b", At(seconds=1), roles=("gpu",))))
    assert len(caught.value.problems) == 2


@pytest.mark.parametrize(
    "method",
    [
        [step("a", At(seconds=1), names=("worker-0", "worker-1", "worker-2"))],
        [step("a", At(seconds=1), names=("worker-0",)), step("b", At(seconds=3), ranks=(4, 5))],
        [step("a", At(seconds=1), hold=None), step("b", At(seconds=90), ranks=(4, 5))],
        [step("a", OnPoint(point="p")), step("b", After(step="a", delay=4), ranks=(4, 5))],
        [step("a", At(seconds=1), nodes=("n0", "n1", "n2"))],
    ],
)
def test_more_members_hurt_at_one_time_than_allowed_is_refused(method: list[Step]) -> None:
    with pytest.raises(SpecError, match="hurts 3 at one time"):
        plan(experiment(*method, members_hurt=2))
    plan(experiment(*method, members_hurt=3))


@pytest.mark.parametrize(
    "method",
    [
        [step("a", At(seconds=1)), step("b", At(seconds=6), ranks=(4, 5))],
        [step("a", At(seconds=1)), step("b", After(step="a", healed=True), ranks=(4, 5))],
        [step("a", At(seconds=1)), step("b", OnEvent(kind="k"), ranks=(4, 5))],
        [step("a", At(seconds=1), names=("worker-4",)), step("b", At(seconds=2), ranks=(4, 5))],
    ],
)
def test_what_may_not_be_at_one_time_is_not_refused(method: list[Step]) -> None:
    plan(experiment(*method, members_hurt=2))


def test_of_a_partition_the_smaller_side_is_hurt() -> None:
    cut = Partition(between=(Selector(nodes=("n3",)), Selector(rest=True)))
    method = Step(name="cut", kind="network.partition", fault=cut, when=At(seconds=1), hold=8.0)
    plan(experiment(method, step("kill", After(step="cut", delay=2.0), ranks=(1,)), members_hurt=2))
    with pytest.raises(SpecError, match="cut, kill: hurts 2"):
        plan(experiment(method, step("kill", After(step="cut", delay=2.0), ranks=(1,)), members_hurt=1))


def test_a_schedule_of_another_experiment_is_refused() -> None:
    schedule = plan(experiment(step("a", At(seconds=1))))
    with pytest.raises(SpecError, match="has not"):
        fault_of(schedule.actions[0], experiment(step("b", At(seconds=1))))
    changed = msgspec.structs.replace(schedule.actions[0], settings={"membres": {}})
    with pytest.raises(SpecError, match="membres"):
        fault_of(changed, experiment(step("a", At(seconds=1))))


def test_the_preview_shows_whom_when_and_how_long() -> None:
    cut = Partition(between=(Selector(nodes=("n3",)), Selector(nodes=("n5",))))
    it = experiment(
        step("kill", At(seconds=12.5), hold=None, fault=Kill, ranks=(1,)),
        Step(name="cut", kind="network.partition", fault=cut, when=After(step="kill", delay=2.0), hold=None),
    )
    kill, parted = preview(plan(it), it)
    assert (kill.when, kill.hold, kill.members, kill.nodes) == ("at 12.5s", "instant", ("worker-1",), ("n1",))
    assert (parted.when, parted.hold) == ("after kill landed, 2s later", "until the end")
    assert (parted.members, parted.nodes) == (("worker-3", "worker-5"), ("n3", "n5"))


@pytest.mark.parametrize(
    ("trigger", "text"),
    [
        (Every(period=30.0, times=3), "every 30s, 3 times"),
        (Poisson(rate=2 / 3600), "2 times an hour at random"),
        (
            OnEvent(kind="epoch.issued", where={"epoch": Condition(at_least=2)}, nth=3),
            "on event epoch.issued, epoch >= 2, number 3",
        ),
        (OnPoint(point="p", where={"rank": Condition(one_of=(1, 2))}), "at failpoint p, rank one of 1, 2"),
        (OnLog(regex="OOM", nth=2), "on log line /OOM/ of anyone, number 2"),
        (OnProbe(probe="x", condition=Condition(at_most=0.5)), "when x is <= 0.5"),
        (After(step="a", healed=True), "after a healed"),
    ],
)
def test_a_trigger_in_words(trigger: AnyTrigger, text: str) -> None:
    assert in_words(trigger) == text
