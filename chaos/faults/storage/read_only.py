"""A file system that takes nothing any more."""

from __future__ import annotations

import errno

from chaos.faults.storage._files import FileFault
from chaos.fileops import Op, Rule


class ReadOnly(FileFault, frozen=True, kw_only=True):
    """Whatever would change files or folders fails with EROFS; reading goes on.

    The fault is armed, and lands with the first operation that it hits.

    Proof: the error that the kernel gave to that process for that operation, on that path.

    Heal: changes pass again; the operations that were hit are counted.
    """

    fidelity = (
        "a file system that the kernel remounted read-only after an error. A file that exists can still be opened for "
        "writing: the write then fails. Not seen, so never hit: io_uring, stores to mapped memory."
    )

    def rule(self) -> Rule:
        ops: tuple[Op, ...] = ("create", "write", "rename", "unlink", "truncate", "mkdir", "rmdir", "link")
        return self.hitting(ops, action="errno", errno=errno.EROFS)
