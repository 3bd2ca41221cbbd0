"""Locust's own figures of a load."""

from __future__ import annotations

from typing import Any

import locust.stats
from locust.env import Environment

from targets.serving.load import facts


class Failed(Exception):
    """Why a request counts as a failure."""


def exact() -> None:
    """Have Locust keep response times to a tenth of a millisecond.

    It rounds to two digits by default, to save bandwidth between machines; that is more than the one percent by which
    its figures may differ from the facts.
    """
    stats: Any = locust.stats  # its documentation says that this function may be replaced
    stats.bucket_response_time = lambda milliseconds: round(milliseconds, 1)


def count(environment: Environment, data: dict[str, Any]) -> None:
    """Tell Locust of a request that has ended."""
    why = facts.failure(data)
    events: Any = environment.events
    events.request.fire(
        request_type="POST", name=data["what"], response_time=data["latency"] * 1000, response_length=0,
        exception=Failed(why) if why else None, context={},
    )  # fmt: skip


def figures(environment: Environment) -> dict[str, Any]:
    """Of all requests, as `load.ended` tells them; times are seconds."""
    total = environment.stats.total
    found: dict[str, Any] = {"requests": total.num_requests, "failures": total.num_failures}
    if total.num_requests:
        found["mean"] = round(total.avg_response_time / 1000, 6)
        for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99)):
            found[name] = round(total.get_response_time_percentile(share) / 1000, 6)
        found["max"] = round(total.max_response_time / 1000, 6)
    return found
