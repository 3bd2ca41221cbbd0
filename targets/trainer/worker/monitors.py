"""What the numbers of a step look like, compared with those before it and with those of the other ranks. Pure.

A symptom is not a cause: a monitor only says which steps are worth a second look. All ranks judge the same readings, so
they come to the same conclusion without another word.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from statistics import fmean, median
from typing import Final, NamedTuple

NORMAL: Final = "normal"
NAN: Final = "nan"  # a loss or a gradient that is no number
EXPLODING: Final = "exploding-gradient"
SPIKE: Final = "spike"  # outside of the band, and nothing worse
PLATEAU: Final = "plateau"

WINDOW = 32  # readings that the band is drawn around
ENOUGH = 3  # readings that make a band
NORM_BAND, NORM_EXPLODES = 3.0, 10.0  # times the median of the gradient norms
LOSS_BAND = 2.0  # times the median of the losses
PLATEAU_STEPS, PLATEAU_GAIN = 60, 0.001  # so many steps in which the loss fell by less than this share


class Reading(NamedTuple):
    """What one rank says of its own part of a step, before anything was reduced."""

    loss: float  # the mean over its samples
    norm: float  # of its gradient
    digest: int  # of its gradient and loss: equal bits, equal digest
    rotten: bool = False  # its state is not what it was after the last step
    unsound: bool = False  # its batch is not what the data set holds
    seconds: float = 0.0  # that its own computation took
    loading: float = 0.0  # that reading its batch took

    @property
    def finite(self) -> bool:
        return math.isfinite(self.loss) and math.isfinite(self.norm)


class Monitors:
    """The bands of loss and gradient norm, over the last healthy readings of all ranks."""

    def __init__(self) -> None:
        self._losses: deque[float] = deque(maxlen=WINDOW)
        self._norms: deque[float] = deque(maxlen=WINDOW)
        self._course: deque[float] = deque(maxlen=2 * PLATEAU_STEPS)

    def signature(self, readings: Sequence[Reading]) -> str:
        """What these readings of one step look like."""
        if not all(reading.finite for reading in readings):
            return NAN
        most = max((self._excess(reading, readings) for reading in readings), default=0.0)
        if most >= NORM_EXPLODES / NORM_BAND:
            return EXPLODING
        return SPIKE if most > 1.0 else NORMAL

    def outstanding(self, readings: Sequence[Reading]) -> int:
        """The rank whose reading is furthest outside."""

        def rank(number: int) -> tuple[bool, float]:
            reading = readings[number]
            return not reading.finite, self._excess(reading, readings) if reading.finite else 0.0

        return max(range(len(readings)), key=rank)

    def note(self, readings: Sequence[Reading]) -> bool:
        """A step that counts; whether the loss has begun to stand still."""
        self._losses.extend(reading.loss for reading in readings)
        self._norms.extend(reading.norm for reading in readings)
        self._course.append(fmean(reading.loss for reading in readings))
        if len(self._course) < 2 * PLATEAU_STEPS:
            return False
        course = list(self._course)
        before, after = fmean(course[:PLATEAU_STEPS]), fmean(course[PLATEAU_STEPS:])
        self._course.clear()
        return after > before * (1.0 - PLATEAU_GAIN)

    def _excess(self, reading: Reading, readings: Sequence[Reading]) -> float:
        """How far outside of its bands a reading lies; up to 1 it is inside."""
        norms = [*self._norms, *(r.norm for r in readings if r is not reading and r.finite)]
        losses = [*self._losses, *(r.loss for r in readings if r is not reading and r.finite)]
        if len(norms) < ENOUGH:
            return 0.0
        norm = reading.norm / (NORM_BAND * median(norms) or math.inf)
        loss = reading.loss / (LOSS_BAND * median(losses) or math.inf)
        return max(norm, loss)
