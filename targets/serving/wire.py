"""What requests and answers carry besides their body; see PROTOCOL.md."""

from __future__ import annotations

import time
from typing import Final

ID: Final = "x-request-id"
DEADLINE: Final = "x-deadline-ms"
PRIORITY: Final = "x-priority"
ATTEMPT: Final = "x-attempt"
ATTEMPTS: Final = "x-attempts"  # in an answer of the router: how many it took
TIER: Final = "x-tier"
SHED: Final = "x-shed"
DRAINING: Final = "x-draining"
CAUSE: Final = "x-cause"  # of a 503: `store`, and not the replica
GENERATION: Final = "x-generation"  # of the weights that answer
IDEMPOTENCY: Final = "idempotency-key"

PRIORITIES: Final = ("high", "normal", "low")  # which leaves a full queue last, and first


class Deadline:
    """The moment at which an answer is of no use any more, on this host's clock."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    @classmethod
    def of(cls, header: str | None, default: float) -> Deadline:
        """As the header says what is left; raises ValueError where it is no number."""
        return cls(int(header) / 1000 if header is not None else default)

    @property
    def left(self) -> float:
        """Seconds; negative once it is over."""
        return self._end - time.monotonic()

    @property
    def header(self) -> str:
        """What is left, for the next hop."""
        return str(max(int(self.left * 1000), 0))
