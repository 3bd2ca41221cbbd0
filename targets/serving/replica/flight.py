"""Single flight: who wants what is being fetched already waits for that, and fetches nothing himself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Flights(Generic[T]):
    """Fetches that are on their way, by what they fetch. Those who wait may give up; a fetch goes on by itself."""

    def __init__(self, *, shared: bool = True) -> None:
        self._shared = shared
        self._flying: dict[Hashable, asyncio.Task[T]] = {}
        self._kept: set[asyncio.Task[T]] = set()

    def fetch(self, key: Hashable, start: Callable[[], Coroutine[Any, Any, T]]) -> asyncio.Task[T]:
        """The one that flies, or a new one."""
        if self._shared and (flying := self._flying.get(key)) is not None:
            return flying
        task = asyncio.get_running_loop().create_task(start())
        self._kept.add(task)
        self._flying[key] = task
        task.add_done_callback(lambda done: self._landed(key, done))
        return task

    def __len__(self) -> int:
        return len(self._kept)

    async def close(self) -> None:
        """End all that fly."""
        for task in list(self._kept):
            task.cancel()
        await asyncio.gather(*self._kept, return_exceptions=True)

    def _landed(self, key: Hashable, task: asyncio.Task[T]) -> None:
        self._kept.discard(task)
        if self._flying.get(key) is task:
            del self._flying[key]
        if not task.cancelled():
            task.exception()  # whoever still waits gets it; if nobody does, it is no news
