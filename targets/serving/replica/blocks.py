"""The blocks of the KV cache: who holds which, and that none is held by nobody."""

from __future__ import annotations

from collections.abc import Sequence


class NoBlocks(Exception):
    """All are held."""


class Blocks:
    """Hands out block numbers."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._free = list(range(count - 1, -1, -1))

    @property
    def used(self) -> int:
        return self.count - len(self._free)

    def take(self, count: int) -> list[int]:
        """That many, or none and NoBlocks."""
        if count > len(self._free):
            raise NoBlocks(f"{count} blocks wanted, {len(self._free)} free")
        return [self._free.pop() for _ in range(count)]

    def give(self, blocks: Sequence[int]) -> None:
        """Back again."""
        self._free.extend(blocks)
