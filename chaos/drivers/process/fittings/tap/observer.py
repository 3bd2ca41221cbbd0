"""The contract with whoever wants to see file operations before they happen, or to do them for the member."""

from __future__ import annotations

from typing import Protocol

from chaos.drivers.process.fittings.tap.operation import Operation


class Observer(Protocol):
    """Named by a fitting in `Fitting.observers`, before the first member starts.

    Called in the tap's one thread, which every member with a tap waits for: be quick. An exception ends the run.
    """

    ops: frozenset[str]  # of chaos.fileops.FILE_OPS; any path, so look at `operation.path` first

    def before(self, operation: Operation) -> int | None:
        """An operation is about to happen, no fault of this run having stopped it. None lets it happen; a number is
        reported to the member as its result instead (below zero: minus the errno), the observer having done it."""
