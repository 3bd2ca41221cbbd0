"""Events that a test looks at afterwards."""

from __future__ import annotations

from typing import Any


class Events(list[tuple[str, dict[str, Any]]]):
    """What was emitted, in order."""

    def __call__(self, kind: str, /, **data: Any) -> None:
        self.append((kind, data))

    def of(self, kind: str, **where: Any) -> list[dict[str, Any]]:
        """Data of the events of that kind whose fields equal `where`."""
        return [d for k, d in self if k == kind and where.items() <= d.items()]
