"""A process that ends at an exact file operation."""

from __future__ import annotations

import msgspec

from chaos.api import Size
from chaos.faults.storage._files import FileFault, Ops
from chaos.fileops import Rule


class Kill(FileFault, frozen=True, kw_only=True):
    """End a member with SIGKILL where it is about to do a file operation, which does not happen any more.

    With `torn`, a write first puts that many bytes into the file. One process is ended, at the `nth` operation or the
    first of those counted.

    Proof: the process that stood at that operation, on that path, has ended.

    Heal: none, it is for the target to recover.
    """

    fidelity = (
        "a crash at the worst moment of a save: what was written before is there, since the kernel keeps what it has. "
        "A machine that loses power forgets more: see storage.power-cut."
    )
    instant = True

    ops: Ops
    torn: Size | None = None

    def __post_init__(self) -> None:
        if self.torn is not None and self.ops != ("write",):
            raise ValueError("only a write can be torn: `ops: [write]`")
        super().__post_init__()

    def rule(self) -> Rule:
        rule = self.hitting(self.ops, action="kill", torn=self.torn)
        return msgspec.structs.replace(rule, last=rule.first)
