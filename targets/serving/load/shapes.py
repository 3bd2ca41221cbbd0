"""How the rate of ranking requests goes over the time of a load: one factor for each moment.

Outside `peak_at … peak_at + peak_for` it is 1 in every shape.
"""

from __future__ import annotations

from targets.serving.settings import Settings

SHAPES = ("steady", "burst", "ramp", "spike")


def factor(settings: Settings, at: float) -> float:
    """What `rate` is multiplied by, `at` seconds after the start.

    `burst` goes up to `peak` at once, stays and comes down at once; `ramp` rises steadily to it, and comes down at
    once; `spike` goes up at once, and falls steadily.
    """
    through = (at - settings.peak_at) / settings.peak_for if settings.peak_for > 0 else -1.0
    if settings.shape == "steady" or not 0 <= through < 1:
        return 1.0
    share = {"burst": 1.0, "ramp": through, "spike": 1 - through}[settings.shape]
    return 1 + (settings.peak - 1) * share


def most(settings: Settings) -> float:
    """The highest factor of all moments."""
    return 1.0 if settings.shape == "steady" else max(settings.peak, 1.0)
