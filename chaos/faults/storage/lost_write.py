"""Bytes that were taken and never arrived."""

from __future__ import annotations

from chaos.faults.storage._files import FileFault
from chaos.fileops import Rule


class LostWrite(FileFault, frozen=True, kw_only=True):
    """A write reports success, and the file has the right length and not the bytes: old ones, or zeros at its end.

    The fault is armed, and lands with the first write that it hits.

    Proof: the write of that process, on that path, that was answered and not carried out, with its length.

    Heal: writes are carried out again; the lost bytes stay lost: the target must notice, and go on from a good copy.
    """

    fidelity = (
        "a write that a drive acknowledged and lost. Readers see it at once, where the kernel's cache would hide it "
        "for a while. Not seen, so never hit: io_uring, stores to mapped memory."
    )

    def rule(self) -> Rule:
        return self.hitting(("write",), action="lie")
