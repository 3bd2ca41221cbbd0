"""A process that ends at an exact file operation."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import msgspec

from chaos.api import Landing, Programs, Selection, Size, Taps
from chaos.errors import HealFailed, NotLanded, Unsupported
from chaos.faults.storage._files import FileFault, Ops
from chaos.fileops import Rule

STARTS_WITHIN = 20.0  # seconds


class Kill(FileFault, frozen=True, kw_only=True):
    """End a member with SIGKILL where it is about to do a file operation, which does not happen any more.

    With `torn`, a write first puts that many bytes into the file. One process is ended, at the `nth` operation or the
    first of those counted. With `again` the harness starts the member anew at once, as a supervisor would; it must have
    started it before.

    Proof: the process that stood at that operation, on that path, has ended.

    Heal: none, it is for the target to recover; with `again`, a new process.
    """

    fidelity = (
        "a crash at the worst moment of a save: what was written before is there, since the kernel keeps what it has. "
        "A machine that loses power forgets more: see storage.power-cut."
    )
    instant = True

    ops: Ops
    torn: Size | None = None
    again: bool = False

    def __post_init__(self) -> None:
        if self.torn is not None and self.ops != ("write",):
            raise ValueError("only a write can be torn: `ops: [write]`")
        super().__post_init__()

    def needs(self) -> tuple[type, ...]:
        return (Programs,) if self.again else ()

    @asynccontextmanager
    async def inject(self, target: Taps, *hit: Selection) -> AsyncIterator[Landing]:
        known = target.programs() if self.again and isinstance(target, Programs) else ()
        if self.again and (strangers := [m.name for m in hit[0].members if m.name not in known]):
            raise Unsupported(f"the harness did not start {', '.join(strangers)}, so it cannot do so again")
        async with super().inject(target, *hit) as landing:
            yield landing
        if self.again and landing.evidence:
            assert isinstance(target, Programs)
            try:
                with anyio.fail_after(STARTS_WITHIN, shield=True):
                    await target.start_again(landing.evidence["member"])
            except (NotLanded, TimeoutError) as error:
                raise HealFailed(f"it was not started again: {error}", "end the run") from error

    def rule(self) -> Rule:
        rule = self.hitting(self.ops, action="kill", torn=self.torn)
        return msgspec.structs.replace(rule, last=rule.first)
