"""The memory of a device reports bits that flipped."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal

from chaos.api import Fault, Landing, Selection, Selector, Signals
from chaos.faults.gpu._reports import by_dcgm

FIELDS = {"single": 318, "double": 319}  # DCGM_FI_DEV_ECC_{SBE,DBE}_VOL_DEV


class Ecc(Fault[Signals], frozen=True, kw_only=True):
    """Report ECC errors of a device's memory to those who watch DCGM: `single` bits, corrected, or `double`, lost.

    Proof: dcgmi says that the count was injected.

    Heal: none, a report cannot be taken back; DCGM forgets it with its next reading of the device.
    """

    fidelity = (
        "the report alone: no bit has flipped, and what computes on the device goes on. For values that are wrong see "
        "compute.corrupt."
    )
    instant = True

    bits: Literal["single", "double"] = "double"
    count: int = 1
    gpu: int = 0

    def selectors(self) -> tuple[Selector, ...]:
        return ()

    @asynccontextmanager
    async def inject(self, target: Signals, *hit: Selection) -> AsyncIterator[Landing]:
        said = await by_dcgm(self.gpu, FIELDS[self.bits], self.count)
        yield Landing({**said, "bits": self.bits, "count": self.count})
