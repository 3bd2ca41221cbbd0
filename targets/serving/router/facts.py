"""What the router tells: facts for the harness, and names of its recovery paths."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from chaos import inside
from targets.serving.router.window import Clock

QUIET = 1.0  # seconds in which one path is named once: an overload takes the same one a thousand times


class Facts:
    """The voice of the router; tests have one that remembers."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._named: dict[str, float] = {}

    def emit(self, kind: str, /, **data: Any) -> None:
        """Record a fact."""
        inside.emit(kind, **data)

    @contextmanager
    def path(self, name: str) -> Iterator[None]:
        """A branch that only runs after a failure."""
        now = self._clock()
        if now - self._named.get(name, float("-inf")) < QUIET:
            yield
            return
        self._named[name] = now
        with inside.recovery_path(name):
            yield
