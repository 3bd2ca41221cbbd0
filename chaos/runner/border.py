"""Where plugin code meets the runner."""

from __future__ import annotations

import traceback
from types import TracebackType


class Border:
    """`with Border() as border:` keeps what plugin code raised, so that a broken plugin cannot stand before the heal
    of another. Cancellation, an interrupt and an exit pass."""

    error: Exception | None = None

    def __enter__(self) -> Border:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> bool:
        if isinstance(error, Exception):
            self.error = error
            return True
        return False

    def trace(self) -> str:
        """The traceback of what was raised."""
        return "" if self.error is None else "".join(traceback.format_exception(self.error))
