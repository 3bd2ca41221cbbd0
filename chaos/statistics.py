"""What a handful of figures says: quantiles, the bootstrap interval of a p95, the interval of a rate."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

from chaos.result import Spread

ENOUGH = 59  # the largest of fewer values lies below the true p95 in more than one case of twenty: 1 - 0.95**n < 0.95
_RESAMPLES = 1000


def spread(values: Sequence[float], seed: int = 0) -> Spread:
    """Median, p95, maximum, and the 95 % percentile-bootstrap interval of the p95 (Efron 1979), seeded."""
    import random  # costs start-up more than all of the judge

    ordered = sorted(values)
    dice = random.Random(seed)
    tails = sorted(quantile(sorted(dice.choices(ordered, k=len(ordered))), 0.95) for _ in range(_RESAMPLES))
    return Spread(
        count=len(ordered),
        median=quantile(ordered, 0.5),
        p95=quantile(ordered, 0.95),
        maximum=ordered[-1],
        low=quantile(tails, 0.025),
        high=quantile(tails, 0.975),
    )


def quantile(ordered: Sequence[float], q: float) -> float:
    """The q-quantile of ascending values, linear between neighbours (Hyndman and Fan's type 7)."""
    place = q * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def median(values: Sequence[float]) -> float:
    """The middle value, or the mean of the two."""
    return quantile(sorted(values), 0.5)


def wilson(passes: int, runs: int, z: float = 1.959964) -> tuple[float, float]:
    """The 95 % score interval of a rate (Wilson 1927)."""
    rate, zz = passes / runs, z * z / runs
    centre = (rate + zz / 2) / (1 + zz)
    half = z * sqrt(rate * (1 - rate) / runs + zz / (4 * runs)) / (1 + zz)
    return max(centre - half, 0.0), min(centre + half, 1.0)
