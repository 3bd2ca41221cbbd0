"""A drive that says it is done and is not."""

from __future__ import annotations

from chaos.faults.storage._files import FileFault
from chaos.fileops import Rule


class LyingFsync(FileFault, frozen=True, kw_only=True):
    """fsync and fdatasync report success and do nothing; a folder is synced by them, too.

    Alone it can hardly be noticed: what was not synced is lost only when the machine is. Put a power cut after it. The
    fault is armed, and lands with the first call that it hits.

    Proof: the call of that process, on that path, that was answered and not carried out.

    Heal: calls are carried out again; those that were hit are counted.
    """

    fidelity = (
        "a drive or controller with a volatile cache that ignores flushes, a hypervisor that does. The kernel may "
        "still write the data by itself, sooner or later."
    )

    def rule(self) -> Rule:
        return self.hitting(("fsync",), action="lie")
