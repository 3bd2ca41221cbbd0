"""A sync that fails, after which the data is gone and the next one succeeds."""

from __future__ import annotations

import errno

from chaos.faults.storage._files import FileFault
from chaos.fileops import Rule


class FailedFsync(FileFault, frozen=True, kw_only=True):
    """fsync fails with EIO, and what was written since the last one is lost: a retry succeeds, and means nothing.

    So do ext4, XFS and btrfs: after a failed write-back the pages count as clean. Whoever retries and then acknowledges
    has lost data; the file must be written anew, or given up. The fault is armed, and lands with the first call that it
    hits.

    Proof: EIO for that call of that process, on that path, and the bytes that were taken back.

    Heal: calls are carried out again; the lost bytes stay lost.
    """

    fidelity = (
        "a failed write-back. The bytes are gone for every reader at once, where the kernel's cache would show them "
        "until it needs the memory or the machine restarts. Changes through io_uring and mapped memory stay."
    )

    def rule(self) -> Rule:
        return self.hitting(("fsync",), action="drop", errno=errno.EIO)
