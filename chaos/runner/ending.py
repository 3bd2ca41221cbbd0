"""Why a run ends, and how it is made to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import anyio


class Ending:
    """The first reason wins. Asking cancels the part of the run that is under way at once; heals are shielded."""

    def __init__(self) -> None:
        self.reason: str | None = None
        self.detail = ""
        self._scope: anyio.CancelScope | None = None

    def ask(self, reason: str, detail: str = "") -> bool:
        """End the run; whether this was the first reason."""
        if self.reason is not None:
            return False
        self.reason, self.detail = reason, detail
        if self._scope is not None:
            self._scope.cancel()
        return True

    @contextmanager
    def cuts(self) -> Iterator[None]:
        """The block that an ending cuts short. An inner one takes the outer's place, and for good: what comes after it
        is the way down, which nothing may cut."""
        with anyio.CancelScope() as scope:
            self._scope = scope
            if self.reason is not None:
                scope.cancel()
            try:
                yield
            finally:
                self._scope = None
