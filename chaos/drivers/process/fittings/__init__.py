"""What a run's members can be fitted with, one file each: set up only where a fault or a trigger needs it."""

from __future__ import annotations

from chaos.drivers.process.fittings.base import Fitting
from chaos.drivers.process.fittings.clock import Clock
from chaos.drivers.process.fittings.dialling import DiallingFitting
from chaos.drivers.process.fittings.disk import Disk
from chaos.drivers.process.fittings.exchanges import ExchangesFitting
from chaos.drivers.process.fittings.foreign import Foreign
from chaos.drivers.process.fittings.fuse import Fuse
from chaos.drivers.process.fittings.groups import Grouping
from chaos.drivers.process.fittings.names import Naming
from chaos.drivers.process.fittings.packets import Delay, Loss, Rate
from chaos.drivers.process.fittings.recording import RecordingFitting
from chaos.drivers.process.fittings.streams import Streams
from chaos.drivers.process.fittings.tap.fitting import Tap

# In the order in which they are set up; torn down in reverse.
FITTINGS: tuple[type[Fitting], ...] = (
    Loss,
    Rate,
    Delay,
    Naming,
    Streams,
    Foreign,
    Disk,
    Fuse,
    Tap,  # last: what others do in a member's process before its program is no business of it
    Grouping,
    RecordingFitting,
    Clock,
    ExchangesFitting,
    DiallingFitting,
)

__all__ = ["FITTINGS", "Fitting"]
