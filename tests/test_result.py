"""The plain data between the judge, the reports and CI."""

from __future__ import annotations

import msgspec

from chaos.errors import Exit
from chaos.result import Check, Kind, Need, Recovery, Result, worst
from chaos.verdict import Outcome, passed


def recovery(total: float | None, need: Need = Need.FAILURE) -> Recovery:
    return Recovery(need=need, total=total)


def result(*recoveries: Recovery) -> Result:
    checks = (
        Check(name="speed", kind=Kind.HYPOTHESIS, verdict=passed("met", [1])),
        Check(name="rto.total", kind=Kind.BUDGET, verdict=passed("met", [1]), measured={"value": 2.0, "limit": 3.0}),
    )
    return Result(
        experiment="e", outcome=Outcome.PASS, exit=Exit.PASS, headline="", checks=checks, recoveries=recoveries
    )


def test_the_worst_recovery_is_the_longest_and_an_unfinished_one_is_longer_still() -> None:
    assert worst([]) is None
    assert worst([recovery(1.0), recovery(3.0), recovery(2.0)]) == recovery(3.0)
    assert worst([recovery(3.0), recovery(None)]) == recovery(None)


def test_planned_growth_and_harmless_faults_are_not_the_worst() -> None:
    assert result(recovery(9.0, Need.PLANNED), recovery(None, Need.NONE)).worst is None
    assert result(recovery(9.0, Need.PLANNED), recovery(1.0)).worst == recovery(1.0)


def test_checks_are_found_by_their_kind() -> None:
    assert [c.name for c in result().of(Kind.BUDGET)] == ["rto.total"]


def test_a_result_survives_the_disk_with_its_exit_code_as_a_number() -> None:
    encoded = msgspec.json.encode(result(recovery(1.0)))
    assert b'"exit":0' in encoded
    assert msgspec.json.decode(encoded, type=Result) == result(recovery(1.0))
