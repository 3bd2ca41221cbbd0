"""What the faults of object storage ask of the target, in virtual time."""

from __future__ import annotations

import msgspec
import pytest

from chaos.exchanges import ExchangeRule
from chaos.faults.objects._requests import RequestFault
from chaos.faults.objects.lose_response import LoseResponse
from chaos.faults.objects.slow import Slow
from chaos.faults.objects.throttle import Throttle
from chaos.testing import FakeTarget

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("fault", "action", "status"),
    [(Throttle(), "refuse", 503), (Slow(seconds=2.0), "delay", 503), (LoseResponse(), "lose", 503)],
)
async def test_a_fault_is_armed_and_has_landed_with_the_first_request(
    target: FakeTarget, fault: RequestFault, action: str, status: int
) -> None:
    told = []
    async with fault.inject(target) as landing:
        (ruled,) = target.ruled
        assert ruled.rule.action == action
        assert not landing.evidence, "armed is not landed"
        assert landing.hit is not None
        assert (await landing.hit(lambda: told.append(1)))["method"] == "PUT"
    assert told == [1]
    assert not target.ruled
    assert landing.healed["hits"] == 1


def test_a_throttle_speaks_as_the_service_does() -> None:
    rule = Throttle(key="*/shards/*", first=2, last=4).rule()
    assert (rule.status, rule.first, rule.last) == (503, 2, 4)
    assert "<Code>SlowDown</Code>" in rule.body


@pytest.mark.parametrize(
    ("method", "path", "matches"),
    [
        ("PUT", "/checkpoints/gen-000002/shards/__1_0.distcp", True),
        ("PUT", "/checkpoints/gen-000002/shards/__1_0.distcp?partNumber=1", True),
        ("PUT", "/checkpoints/gen-000003/shards/__1_0.distcp", False),
        ("GET", "/checkpoints/gen-000002/shards/__1_0.distcp", False),
    ],
)
def test_a_rule_means_methods_and_keys(method: str, path: str, matches: bool) -> None:
    assert Throttle(key="checkpoints/gen-000002/*").rule().matches(method, path) is matches


def test_a_rule_counts() -> None:
    rule = ExchangeRule(link="objects", methods=("PUT",), path="*", action="lose", first=2, last=3)
    assert [rule.due(n) for n in range(1, 5)] == [False, True, True, False]


@pytest.mark.parametrize(
    "wrong", [{"nth": 2, "from": 1, "to": 3}, {"from": 3, "to": 2}, {"status": 200}, {"methods": []}]
)
def test_settings_that_mean_nothing_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(wrong, Throttle)
