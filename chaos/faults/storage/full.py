"""No space left."""

from __future__ import annotations

import errno as numbers
from typing import Literal

from chaos.faults.storage._files import FileFault, Ops
from chaos.fileops import Rule


class Full(FileFault, frozen=True, kw_only=True):
    """Operations that need space fail with ENOSPC, or EDQUOT for a quota; what is there can be read and removed.

    The fault is armed, and lands with the first operation that it hits.

    Proof: the error that the kernel gave to that process for that operation, on that path.

    Heal: there is space again; the operations that were hit are counted.
    """

    fidelity = (
        "a full disk, at the border of the program: a call fails as a whole, where a real one may first write a part. "
        "Not seen, so never hit: io_uring, stores to mapped memory."
    )

    ops: Ops = ("create", "write", "mkdir", "link")
    errno: Literal["ENOSPC", "EDQUOT"] = "ENOSPC"

    def rule(self) -> Rule:
        return self.hitting(self.ops, action="errno", errno=getattr(numbers, self.errno))
