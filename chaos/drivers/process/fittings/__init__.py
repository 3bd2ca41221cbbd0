"""What a run's members can be fitted with, one file each: set up only where a fault or a trigger needs it."""

from __future__ import annotations

from chaos.drivers.process.fittings.base import Fitting

# In the order in which they are set up; torn down in reverse.
FITTINGS: tuple[type[Fitting], ...] = ()

__all__ = ["FITTINGS", "Fitting"]
