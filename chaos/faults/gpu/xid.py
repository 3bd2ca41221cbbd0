"""The driver reports an error of a device."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal

from chaos.api import Fault, Landing, Selection, Selector, Signals
from chaos.faults.gpu._reports import Allowed, by_dcgm, by_kernel_log

FIELD = 230  # DCGM_FI_DEV_XID_ERRORS


class Xid(Fault[Signals], frozen=True, kw_only=True):
    """Report an XID error of a device: to those who watch DCGM, or in the kernel's log.

    The log is the host's own, so it is written to only where `allow: [host-kernel-log]` says so.

    Proof: dcgmi says that it was injected; or the line was read back from the log.

    Heal: none, a report cannot be taken back.
    """

    fidelity = (
        "the report alone: what a health daemon reads and acts on. The device is well, and what computes on it goes "
        "on; pair it with gpu.kill. Common ones: 48 double-bit ECC, 63 row remapping, 79 fallen off the bus."
    )
    instant = True

    xid: int = 79
    gpu: int = 0
    pci: str = "0000:00:00"
    by: Literal["dcgm", "kernel-log"] = "dcgm"
    allow: tuple[Allowed, ...] = ()

    def selectors(self) -> tuple[Selector, ...]:
        return ()

    @asynccontextmanager
    async def inject(self, target: Signals, *hit: Selection) -> AsyncIterator[Landing]:
        if self.by == "dcgm":
            said = await by_dcgm(self.gpu, FIELD, self.xid)
        else:
            said = await by_kernel_log(f"NVRM: Xid (PCI:{self.pci}): {self.xid}, injected by a test", self.allow)
        yield Landing({**said, "xid": self.xid})
