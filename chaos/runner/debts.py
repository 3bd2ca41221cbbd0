"""What a run owes the world outside of its lab: told to a guardian before it is done."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio.to_thread

from chaos.api import Undo
from chaos.guardian import Ledger, spawn


class Debts:
    """Nothing is opened or started before the first debt."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ledger: Ledger | None = None
        self._held = -1
        self._count = 0

    async def owe(self, undo: Undo) -> Callable[[], Awaitable[None]]:
        """Durable, and guarded, when it returns; what that returns is to be called after the heal."""
        number = self._count = self._count + 1
        await anyio.to_thread.run_sync(self._note, number, undo)

        async def settled() -> None:
            assert self._ledger is not None
            await anyio.to_thread.run_sync(self._ledger.write, {"id": number, "done": "healed"})

        return settled

    def _note(self, number: int, undo: Undo) -> None:
        if self._ledger is None:
            self._ledger = Ledger(str(self._folder))
            self._ledger.lock()
            self._held = spawn(self._ledger)
        self._ledger.write({"id": number, "what": undo.what, "method": undo.method, "url": undo.url})

    def close(self) -> None:
        """The guardian looks what is still owed, and ends; where something is, that may take it longer than us."""
        if self._ledger is not None:
            os.close(self._held)
            self._ledger.close()
            self._ledger = None
