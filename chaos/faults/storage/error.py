"""Calls that fail."""

from __future__ import annotations

import errno as numbers
from typing import Annotated

from msgspec import Meta

from chaos.faults.storage._files import FileFault, Ops
from chaos.fileops import Rule


class Error(FileFault, frozen=True, kw_only=True):
    """File operations fail with an error number, and do not happen.

    The fault is armed, and lands with the first operation that it hits; one that hits none before the run ends has not
    landed.

    Proof: the error that the kernel gave to that process for that operation, on that path.

    Heal: the operations pass again; those that were hit are counted.
    """

    fidelity = (
        "a disk or file system that reports an error, at the border of the program: nothing below has changed, and "
        "pages that the kernel had cached stay. Not seen, so never hit: io_uring, stores to mapped memory."
    )

    ops: Ops = ("write", "fsync")
    errno: Annotated[str, Meta(description="its name", examples=["EIO", "ENOSPC", "ESTALE"])] = "EIO"

    def __post_init__(self) -> None:
        if self.errno not in numbers.errorcode.values():
            raise ValueError(
                f"there is no error number {self.errno!r} here; EIO, ENOSPC, EROFS, EDQUOT, ESTALE are some"
            )
        super().__post_init__()

    def rule(self) -> Rule:
        return self.hitting(self.ops, action="errno", errno=getattr(numbers, self.errno))
