"""What becomes of an operation that is hit. All of it happens in the tap's thread, before the member goes on."""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Callable

from chaos.api import JSON
from chaos.drivers.process.fittings.tap.server import Answer, Pending
from chaos.drivers.process.fittings.tap.unsynced import Unsynced
from chaos.fileops import Rule


class Deed:
    """One hit, on its way to be done."""

    def __init__(self, pending: Pending, rule: Rule, facts: JSON, unsynced: Unsynced) -> None:
        self.pending = pending
        self.rule = rule
        self.facts = facts  # of the evidence
        self.unsynced = unsynced
        self.since = time.monotonic()
        self.did = ""


def fail(deed: Deed) -> Answer | None:
    """The call fails, and does nothing."""
    deed.did = deed.facts["errno"] = errno.errorcode[deed.rule.errno]
    return Answer(error=deed.rule.errno)


def kill(deed: Deed) -> Answer | None:
    """The process ends where it stands; of a write the first bytes are in the file."""
    operation, torn = deed.pending.operation, deed.rule.torn
    if torn is not None and operation.op == "write" and operation.carries:
        part = operation.data(torn)
        place = operation.offset()
        with operation.file() as file:
            deed.facts["torn"] = os.pwrite(file, part, place) if not operation.appends else os.write(file, part)
    victim = os.pidfd_open(operation.pid)
    signal.pidfd_send_signal(victim, signal.SIGKILL)
    deed.facts["victim"] = victim
    deed.did = "killed"
    return None


def lie(deed: Deed) -> Answer | None:
    """Success is reported. Of a write the length counts, as on a drive that lost the bytes but not the size."""
    operation = deed.pending.operation
    deed.did = deed.facts["reported"] = "done"
    if operation.op != "write" or operation.syscall == "fallocate":
        return Answer(value=0)
    size = operation.size or 0
    end = operation.offset() + size
    with operation.file() as file:
        if not operation.regular():
            return Answer(value=size)
        if os.fstat(file).st_size < end:
            os.ftruncate(file, end)
        if not operation.placed:
            os.lseek(file, end, os.SEEK_SET)
    deed.facts["lost"] = size
    return Answer(value=size)


def drop(deed: Deed) -> Answer | None:
    """The sync fails, and what it should have made durable is gone: a second one has nothing left to do."""
    deed.facts.update(deed.unsynced.drop(deed.pending.operation))
    return fail(deed)


ACTIONS: dict[str, Callable[[Deed], Answer | None]] = {"errno": fail, "kill": kill, "lie": lie, "drop": drop}
