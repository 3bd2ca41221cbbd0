"""What a replica counts, for Prometheus."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


class Meters:
    """Counters and gauges of one replica."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter("replica_requests", "Answers", ["what", "status"], registry=self._registry)
        self._seconds = Histogram(
            "replica_request_seconds",
            "From arrival to the last byte",
            ["what"],
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._moves = Counter(
            "replica_feature_moves", "Changes of a feature tier", ["tier", "state"], registry=self._registry
        )

    def request(self, what: str, status: int, seconds: float) -> None:
        """A request was answered."""
        self._requests.labels(what, status).inc()
        self._seconds.labels(what).observe(seconds)

    def moved(self, tier: str, state: str) -> None:
        """A feature tier has changed."""
        self._moves.labels(tier, state).inc()

    def gauge(self, name: str, documentation: str, value: Callable[[], float]) -> None:
        """Something that is read when it is asked for."""
        Gauge(name, documentation, registry=self._registry).set_function(value)

    def text(self) -> bytes:
        """All of it, in Prometheus' format."""
        return generate_latest(self._registry)
