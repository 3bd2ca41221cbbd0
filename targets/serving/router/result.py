"""What came of one attempt at a replica."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from targets.serving.wire import CAUSE, DRAINING, SHED


class Kind(Enum):
    """What an attempt's end means."""

    ANSWER = "answer"
    MISTAKE = "mistake"  # of the client: nobody else would answer otherwise
    SHED = "shed"  # the replica has too much to do: trying elsewhere would make it worse
    DRAINING = "draining"  # refused before it began: free to try elsewhere
    FAILED = "failed"  # the replica's fault
    DEPENDENCY = "dependency"  # what the replica needs has failed
    LATE = "late"  # no answer in time
    GONE = "gone"  # the client did not wait


class Result(NamedTuple):
    """The end of an attempt."""

    kind: Kind
    status: int = 0  # 0: no answer
    body: bytes = b""
    reason: str = ""
    broken: bool = False  # the connection was refused, or broke
    seconds: float = 0.0
    attempts: int = 0  # that it took so far

    @property
    def again(self) -> bool:
        """Whether another attempt may make it better."""
        return self.kind in (Kind.DRAINING, Kind.FAILED, Kind.DEPENDENCY, Kind.LATE)


NOBODY = Result(Kind.FAILED, 0, reason="no replica is fit")


def of_answer(status: int, headers: Mapping[str, str], body: bytes) -> Result:
    """What an answer of a replica means."""
    if status == 200:
        return Result(Kind.ANSWER, status, body)
    if status == 503 and DRAINING in headers:
        return Result(Kind.DRAINING, status, body, "draining")
    if status == 503 and CAUSE in headers:
        return Result(Kind.DEPENDENCY, status, body, headers[CAUSE])
    if status == 429:
        return Result(Kind.SHED, status, body, headers.get(SHED, "queue"))
    if 400 <= status < 500:
        return Result(Kind.MISTAKE, status, body)
    return Result(Kind.LATE if status == 504 else Kind.FAILED, status, body, f"status {status}")
