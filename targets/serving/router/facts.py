"""What the router tells: facts for the harness, and names of its recovery paths."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from chaos import inside
from targets.serving.router.window import Clock

SOON = 0.02  # seconds until a fact is told of which there are many: each telling wakes the harness
QUIET = 1.0  # seconds in which one path is named once: an overload takes the same one a thousand times


class Facts:
    """The voice of the router; tests have one that remembers."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._named: dict[str, float] = {}
        self._waiting: list[tuple[str, float, dict[str, Any]]] = []

    def emit(self, kind: str, /, **data: Any) -> None:
        """Record a fact."""
        self.flush()
        inside.emit(kind, **data)

    def emit_soon(self, kind: str, /, **data: Any) -> None:
        """Record a fact of a request; it is told with the next one, at its own time."""
        if not inside.listening():
            return
        if not self._waiting:
            asyncio.get_running_loop().call_later(SOON, self.flush)
        self._waiting.append((kind, self._clock(), data))

    def flush(self) -> None:
        """Tell what waits."""
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            inside.emit_all(waiting)

    @contextmanager
    def path(self, name: str) -> Iterator[None]:
        """A branch that only runs after a failure."""
        now = self._clock()
        if now - self._named.get(name, float("-inf")) < QUIET:
            yield
            return
        self._named[name] = now
        self.flush()
        with inside.recovery_path(name):
            yield
