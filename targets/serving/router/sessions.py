"""What the router keeps of each session: its transcript, where it lives, and the answer to its last turn."""

from __future__ import annotations

import asyncio
from collections import OrderedDict

from targets.serving.router.window import Clock

MOST = 10_000  # sessions; beyond, those that were used least recently are forgotten


class Session:
    """One conversation. Its turns come one after the other: `turn` is held while one runs."""

    def __init__(self) -> None:
        self.history: list[int] = []  # prompts and answers of the turns that were completed
        self.turns = 0
        self.at: int | None = None  # index of the replica that served the last turn
        self.generation: int | None = None  # of the weights that it began with
        self.key: str | None = None  # idempotency key of the last turn
        self.answer: list[int] = []  # its tokens
        self.done: dict[str, object] = {}  # its last line
        self.turn = asyncio.Lock()
        self.used = 0.0

    def complete(self, prompt: list[int], answer: list[int], key: str | None, done: dict[str, object]) -> None:
        """The turn that ran is part of the transcript from now on."""
        self.history += prompt
        self.history += answer
        self.turns += 1
        self.key, self.answer, self.done = key, answer, done


class Sessions:
    """All sessions that were used within the last `idle` seconds."""

    def __init__(self, idle: float, clock: Clock) -> None:
        self._idle, self._clock = idle, clock
        self._sessions: OrderedDict[str, Session] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, name: str) -> Session:
        """The session of that name, a new one if there is none."""
        session = self._sessions.setdefault(name, Session())
        session.used = self._clock()
        self._sessions.move_to_end(name)
        self._forget()
        return session

    def _forget(self) -> None:
        before = self._clock() - self._idle
        while self._sessions:
            name, oldest = next(iter(self._sessions.items()))
            if (oldest.used >= before and len(self._sessions) <= MOST) or oldest.turn.locked():
                return
            del self._sessions[name]
