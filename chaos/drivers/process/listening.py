"""What members say, for whoever waits for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from chaos.history import Event
from chaos.talk import Heard


class Listening:
    """Implements Hears."""

    def __init__(self) -> None:
        self._listeners: list[tuple[tuple[str, ...], Heard]] = []

    @contextmanager
    def listen(self, *kinds: str) -> Iterator[Heard]:
        listener = kinds, Heard()
        self._listeners.append(listener)
        try:
            yield listener[1]
        finally:
            self._listeners.remove(listener)

    def heard(self, event: Event) -> None:
        """A member said that."""
        for kinds, heard in self._listeners:
            if event.kind in kinds:
                heard.take(event)
