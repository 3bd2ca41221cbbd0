"""How busy the machine is."""

from __future__ import annotations

import os
from typing import ClassVar

from chaos.api import Probe, Scene


class Load(Probe, frozen=True, kw_only=True):
    """Load average of the last minute divided by the processors this process may use; 1 is fully busy."""

    unit: ClassVar[str] = "per core"

    async def sample(self, scene: Scene) -> float | None:
        return os.getloadavg()[0] / len(os.sched_getaffinity(0))
