"""How long one attempt may take, where another one may follow."""

from __future__ import annotations

import pytest

from targets.serving.router.asked import Asked
from targets.serving.router.budget import Budget
from targets.serving.router.replica import Replica
from targets.serving.router.result import Kind, Result
from targets.serving.router.tries import Tries
from targets.serving.settings import Settings

from .test_fleet import Yard


class Patient(Asked):
    """A request with a second left, whenever one looks."""

    def __init__(self) -> None:
        pass

    @property
    def left(self) -> float:
        return 1.0


@pytest.mark.anyio
@pytest.mark.parametrize(("usual", "limits"), [(0.01, [0.5, 0.5, 1.0]), (0.3, [1.0, 1.0, 1.0])])
async def test_an_attempt_is_cut_short_only_where_there_is_time_for_two(usual: float, limits: list[float]) -> None:
    yard, given = Yard(), []

    async def one(replica: Replica, number: int, limit: float) -> Result:
        given.append(limit)
        return Result(Kind.FAILED, reason="broken")

    tries = Tries(yard.fleet, Budget(ratio=0.1, burst=20), yard.facts, Settings())
    await tries.run(Patient(), one, usual=usual, path=lambda: "request.retry")
    assert given == limits
