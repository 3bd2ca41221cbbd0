"""The serving probes on scripted scenes: what clients saw, its absence, and the moments between."""

from __future__ import annotations

from typing import Any

import pytest

from chaos.api import Probe
from chaos.history import Event
from chaos.probes.serving.attempts import Attempts
from chaos.probes.serving.availability import Availability
from chaos.probes.serving.degraded import Degraded
from chaos.probes.serving.error_rate import ErrorRate
from chaos.probes.serving.first_token import FirstToken
from chaos.probes.serving.goodput import Goodput
from chaos.probes.serving.latency import Latency
from chaos.probes.serving.quality_gap import QualityGap
from chaos.probes.serving.queue_depth import QueueDepth
from chaos.probes.serving.time_to_full_quality import TimeToFullQuality
from chaos.probes.serving.time_to_leave import TimeToLeave
from chaos.probes.serving.wrong_answers import WrongAnswers

from .scene import Scene

pytestmark = pytest.mark.anyio

LIVE = {"critical": "live", "important": "live", "useful": "live", "optional": "live"}
ALL: tuple[Probe, ...] = (
    Attempts(), Availability(), Degraded(), ErrorRate(), FirstToken(), Goodput(), Latency(), QualityGap(), QueueDepth(),
    TimeToFullQuality(), TimeToLeave(), WrongAnswers(),
)  # fmt: skip


@pytest.fixture
def anyio_backend() -> str:
    return "trio"


def event(t: float, kind: str, source: str = "load", /, **data: Any) -> Event:
    return Event(seq=0, t=t, wall=0, source=source, kind=kind, data=data)


def sent(t: float, name: str, **data: Any) -> Event:
    fields = {"id": name, "what": "rank", "priority": "normal", "deadline": 1.0, "wrong": False} | data
    return event(t, "request.sent", **fields)


def done(t: float, name: str = "r", **data: Any) -> Event:
    fields: dict[str, Any] = {
        "id": name, "what": "rank", "priority": "normal", "deadline": 1.0, "wrong": False, "status": 200,
        "latency": 0.01, "attempts": 1, "tier": "primary", "features": LIVE, "right": True,
    }  # fmt: skip
    return event(t, "request.completed", **(fields | data))


async def of(probe: Probe, now: float, *events: Event) -> float | None:
    return await probe.sample(Scene(now, *events))


@pytest.mark.parametrize("probe", ALL, ids=lambda p: type(p).__name__)
async def test_there_is_no_number_before_the_first_request(probe: Probe) -> None:
    assert await of(probe, 10.0) is None
    assert probe.every == 0.25


@pytest.mark.parametrize("probe", ALL, ids=lambda p: type(p).__name__)
async def test_the_mistakes_of_clients_say_nothing_of_the_service(probe: Probe) -> None:
    mistakes = [done(9.5, f"w{i}", status=400, wrong=True, latency=9.0, tier=None, right=None) for i in range(5)]
    if not isinstance(probe, TimeToFullQuality):
        assert await of(probe, 10.0, *mistakes) is None
    fault = event(5.0, "fault.landed", "fault:f", kind="process.kill")
    assert await of(probe, 10.0, fault, sent(4.0, "a"), done(4.0, "a"), *mistakes) in (None, 0.0)


async def test_availability_is_the_share_of_answers() -> None:
    events = [done(9.5), done(9.6, status=503), done(9.7, status=429), done(9.8, tier="static"), done(1.0, status=500)]
    assert await of(Availability(), 10.0, *events) == 0.5
    assert await of(Availability(priority="high"), 10.0, *events) is None
    assert await of(Availability(what="generate"), 10.0, *events, done(9.9, what="generate")) == 1.0


async def test_a_service_that_stands_still_is_not_available_though_nothing_ends() -> None:
    events = [sent(8.0 + i / 10, f"r{i}") for i in range(10)]  # deadlines from 9.0 to 9.9
    assert await of(Availability(), 10.0, *events) == 0.0
    assert await of(ErrorRate(), 10.0, *events) == 1.0
    assert await of(Latency(), 10.0, *events) == pytest.approx(1.9)
    assert await of(Availability(), 8.9, *[e for e in events if e.t <= 8.9]) is None  # all of them may yet be answered


async def test_a_request_counts_once_when_it_ends_after_its_deadline() -> None:
    events = [sent(8.5, "a"), done(9.8, "a", latency=1.3), sent(8.6, "b")]
    assert await of(Availability(), 10.0, *events) == 0.5


async def test_what_was_shed_is_an_error_only_where_asked() -> None:
    events = [done(9.5), done(9.6, status=429), done(9.7, status=504), done(9.8, status=0)]
    assert await of(ErrorRate(), 10.0, *events) == 0.5
    assert await of(ErrorRate(shed=True), 10.0, *events) == 0.75


async def test_latency_is_a_quantile_that_some_request_really_took() -> None:
    events = [done(9.5, latency=i / 100) for i in range(1, 101)]
    assert await of(Latency(), 10.0, *events) == 0.99
    assert await of(Latency(quantile=0.5), 10.0, *events) == 0.5
    assert await of(Latency(quantile=1.0), 10.0, *events) == 1.0
    assert await of(Latency(), 10.0, done(9.5, latency=0.3)) == 0.3


@pytest.mark.parametrize("status", [503, 429, 400])
async def test_who_is_refused_late_has_waited_for_it(status: int) -> None:
    late, soon = done(9.5, status=status, latency=0.9), done(9.6, "b", status=status, latency=0.1)
    assert await of(Latency(quantile=1.0), 10.0, late, soon) == 0.9
    assert await of(Latency(), 10.0, soon) == (0.1 if status == 400 else None)


async def test_latency_counts_the_wait_for_nothing_and_not_a_quick_refusal() -> None:
    events = [done(9.5, latency=0.02), done(9.6, latency=0.001, status=429), done(9.7, latency=2.0, status=0)]
    assert await of(Latency(), 10.0, *events) == 2.0
    assert await of(Latency(quantile=0.5), 10.0, *events) == 0.02


async def test_the_first_token_is_that_of_streams() -> None:
    events = [done(9.0, what="generate", first=0.2), done(9.5, what="generate", first=None), done(9.6)]
    assert await of(FirstToken(), 10.0, *events) == 0.2


async def test_goodput_counts_right_answers_in_time() -> None:
    events = [sent(1.0, "x"), done(9.5), done(9.6, latency=1.2), done(9.7, right=False), done(9.8, right=None)]
    assert await of(Goodput(), 10.0, *events) == 2.0
    assert await of(Goodput(), 30.0, *events) == 0.0
    assert await of(Goodput(), 1.4, sent(1.0, "x"), done(1.2)) is None
    assert await of(Goodput(), 1.5, sent(1.0, "x"), done(1.2)) == 2.0


async def test_degraded_tells_tiers_and_features_apart() -> None:
    old = LIVE | {"useful": "cached"}
    events = [
        done(9.5),
        done(9.5, features=old),
        done(9.6, tier="secondary"),
        done(9.7, tier="static"),
        done(9.8, status=0),
    ]
    assert await of(Degraded(), 10.0, *events) == 0.5
    assert await of(Degraded(tier="static"), 10.0, *events) == 0.25
    assert await of(Degraded(features=True), 10.0, *events) == 0.75


async def test_wrong_answers_are_counted_among_those_that_were_compared() -> None:
    assert await of(WrongAnswers(), 10.0, done(9.5, right=None)) is None
    assert await of(WrongAnswers(), 10.0, done(9.5), done(9.6)) == 0
    mistake = done(9.8, wrong=True, right=False)
    assert await of(WrongAnswers(), 10.0, done(9.5), done(9.6, right=False), mistake, done(1.0, right=False)) == 2


async def test_the_quality_gap_is_that_of_degraded_answers_or_of_all() -> None:
    events = [done(9.5), done(9.6), done(9.7, tier="static", gap_to_primary=0.4), done(9.8, gap_to_primary=0.2)]
    assert await of(QualityGap(), 10.0, *events) == pytest.approx(0.3)
    assert await of(QualityGap(all=True), 10.0, *events) == pytest.approx(0.15)
    assert await of(QualityGap(), 10.0, done(9.5)) is None


async def test_attempts_are_those_of_whom_the_answer_tells() -> None:
    events = [done(9.5), done(9.6, attempts=3), done(9.7, attempts=None, status=0)]
    assert await of(Attempts(), 10.0, *events) == 2.0


async def test_queues_add_up_by_what_each_said_last() -> None:
    events = [
        event(9.0, "router.usage", "router", queue=7), event(9.5, "router.usage", "router", queue=3),
        event(9.5, "replica.usage", "replica-0", queue=1), event(9.6, "replica.usage", "replica-1", queue=2),
        event(2.0, "replica.usage", "replica-2", queue=50),
    ]  # fmt: skip
    assert await of(QueueDepth(), 10.0, *events) == 6
    assert await of(QueueDepth(role="router"), 10.0, *events) == 3
    assert await of(QueueDepth(role="replica"), 10.0, *events) == 3


def tried(t: float, seconds: float, replica: str = "replica-1") -> Event:
    return event(t, "attempt.completed", "router", replica=replica, seconds=seconds, status=0)


async def test_traffic_leaves_a_dead_replica_with_the_start_of_the_last_attempt_there() -> None:
    died = event(5.0, "member.exited", "replica-1", member="replica-1", role="replica", code=-9)
    other = tried(9.0, 0.1, "replica-0")
    assert await of(TimeToLeave(), 10.0, other) is None
    assert await of(TimeToLeave(), 10.0, died, other) == 0.0
    assert await of(TimeToLeave(), 10.0, tried(5.1, 0.2), died, other) == 0.0  # it was under way when the replica died
    assert await of(TimeToLeave(), 10.0, died, tried(5.4, 0.1), other, tried(6.0, 0.9)) == pytest.approx(0.3)
    back = event(7.0, "replica.ready", "replica-1", replica="replica-1")
    assert await of(TimeToLeave(), 10.0, died, tried(5.4, 0.1), back, tried(8.0, 0.1)) == pytest.approx(0.3)


async def test_traffic_leaves_a_frozen_replica_until_it_is_healed() -> None:
    fault = event(5.0, "fault.landed", "fault:f", kind="process.freeze", members=["replica-1"])
    healed = event(8.0, "fault.healed", "fault:f", kind="process.freeze")
    probe = TimeToLeave(replica="replica-1")
    assert await of(probe, 10.0, tried(6.0, 0.1)) is None
    assert await of(probe, 10.0, fault, tried(5.2, 0.9), tried(7.0, 1.5), tried(6.0, 0.1, "replica-0")) == 0.5
    assert await of(probe, 10.0, fault, tried(7.0, 1.5), healed, tried(9.0, 0.1)) == 0.5


async def test_a_replica_that_was_stopped_or_drained_did_not_die() -> None:
    stopped = event(5.0, "member.exited", "r", member="replica-1", role="replica", code=-15, expected=True)
    drained = event(5.0, "member.exited", "r", member="replica-1", role="replica", code=0)
    router = event(5.0, "member.exited", "r", member="router", role="router", code=-9)
    assert await of(TimeToLeave(), 10.0, stopped, drained, router, tried(6.0, 0.1)) is None


async def test_full_quality_is_back_with_the_last_request_that_lacked_something() -> None:
    fault = event(5.0, "fault.landed", "fault:f", kind="process.kill")
    before = done(4.0, status=503)
    fine = [done(t / 10) for t in range(81, 100)]
    assert await of(TimeToFullQuality(), 10.0, before) is None
    assert await of(TimeToFullQuality(), 10.0, before, fault, *fine) == 0.0
    for lacks in (
        {"status": 503}, {"status": 0}, {"tier": "secondary"}, {"features": LIVE | {"optional": "omitted"}},
        {"latency": 1.5}, {"right": False}, {"what": "generate", "missing": [3]},
    ):  # fmt: skip
        assert await of(TimeToFullQuality(), 10.0, before, fault, done(8.0, **lacks), *fine) == pytest.approx(3.0)


async def test_one_request_among_many_is_no_loss_of_quality() -> None:
    fault = event(5.0, "fault.landed", "fault:f", kind="process.kill")
    events = [done(4.0), fault, *(done(5 + i / 100, status=503 if i == 300 else 200) for i in range(450))]
    assert await of(TimeToFullQuality(), 10.0, *events) == 0.0
    assert await of(TimeToFullQuality(tolerate=0), 10.0, *events) == pytest.approx(3.0)


async def test_full_quality_is_not_back_until_it_has_lasted() -> None:
    fault = event(5.0, "fault.landed", "fault:f", kind="process.kill")
    events = [done(4.0), fault, done(6.0, status=503), done(6.5)]
    assert await of(TimeToFullQuality(), 6.9, *events) == pytest.approx(1.9)
    assert await of(TimeToFullQuality(), 7.1, *events) == pytest.approx(1.0)
    assert await of(TimeToFullQuality(), 7.1, *events, sent(5.8, "open")) == pytest.approx(2.1)
    assert await of(TimeToFullQuality(), 60.0, fault, done(59.0)) is None  # what came first is not kept any more
