"""What the router counts, for Prometheus."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


class Meters:
    """Counters and gauges of one router."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter("router_requests", "Answers", ["what", "status"], registry=self._registry)
        self._seconds = Histogram(
            "router_request_seconds",
            "From arrival to the last byte",
            ["what"],
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._attempts = Counter(
            "router_attempts", "Attempts at replicas", ["replica", "result"], registry=self._registry
        )
        self._shed = Counter("router_shed", "Refused requests", ["priority", "reason"], registry=self._registry)

    def request(self, what: str, status: int, seconds: float) -> None:
        """A request was answered."""
        self._requests.labels(what, status).inc()
        self._seconds.labels(what).observe(seconds)

    def attempt(self, replica: str, result: str) -> None:
        """An attempt has ended."""
        self._attempts.labels(replica, result).inc()

    def shed(self, priority: str, reason: str) -> None:
        """A request was refused."""
        self._shed.labels(priority, reason).inc()

    def gauge(self, name: str, documentation: str, value: Callable[[], float]) -> None:
        """Something that is read when it is asked for."""
        Gauge(name, documentation, registry=self._registry).set_function(value)

    def text(self) -> bytes:
        """All of it, in Prometheus' format."""
        return generate_latest(self._registry)
