"""What a serving history means: requests with their attempts, the lives of replicas, and who stood in rotation.

Invariants and the measurement of recovery read a history through this, so that they agree on when a replica was dead,
which faults explain what, and when a request began and ended. Everything is a pure function of the history and costs
one pass over its events. Times are those of `Event.t`.
"""

from __future__ import annotations

from chaos.serving.lives import Dead, Drain, Life, Out
from chaos.serving.requests import ASKED, FALLBACKS, SHED, TIERS, Attempt, Request
from chaos.serving.service import Service, serves, service

RACE = 0.05  # two processes may tell of one moment in the other order, seconds

__all__ = [
    "ASKED", "FALLBACKS", "RACE", "SHED", "TIERS", "Attempt", "Dead", "Drain", "Life", "Out", "Request", "Service",
    "serves", "service",
]  # fmt: skip
