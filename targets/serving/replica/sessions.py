"""Sessions that live on this replica: what was said, and which blocks hold what was computed of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from targets.serving.models.shapes import BLOCK, SYSTEM
from targets.serving.replica.blocks import Blocks, NoBlocks
from targets.serving.replica.engine import blocks_for
from targets.serving.replica.loading import Loaded

SHARED = len(SYSTEM) // BLOCK  # blocks of the system prompt, the same for all sessions of a generation


class Session:
    """`tokens[:fed]` have their keys and values in `blocks`, the first of which are the prefix cache's."""

    def __init__(self, id: str, loaded: Loaded, prefix: Sequence[int]) -> None:
        self.id, self.loaded = id, loaded
        self.tokens: list[int] = list(SYSTEM)
        self.fed = len(SYSTEM)
        self.blocks = list(prefix)
        self.token = 0  # of the turn that owns it: who has an older one writes nothing any more
        self.turn = 0
        self.saved = 0  # as far as it is kept elsewhere …
        self.sums: dict[int, int] = {}  # … with these checksums of its blocks
        self.used = 0.0
        self.busy = asyncio.Lock()

    @property
    def own(self) -> list[int]:
        """Blocks that nobody else reads."""
        return self.blocks[SHARED:]

    def align(self, expected: Sequence[int]) -> None:
        """Forget whatever differs from `expected`; what was said after it remains."""
        common = 0
        for mine, theirs in zip(self.tokens, expected, strict=False):
            if mine != theirs:
                break
            common += 1
        if common < len(expected):
            self.tokens = list(expected)
            self.fed, self.saved = min(self.fed, common), min(self.saved, common)


class Sessions:
    """All of them, and the blocks that they share out among themselves."""

    def __init__(self, blocks: Blocks, idle: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.blocks, self._idle, self._clock = blocks, idle, clock
        self._sessions: dict[str, Session] = {}
        self._prefixes: dict[int, list[int]] = {}  # by generation

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def held(self) -> int:
        """Blocks that somebody living holds."""
        own = sum(len(session.own) for session in self._sessions.values())
        return own + sum(map(len, self._prefixes.values()))

    def __contains__(self, id: str) -> bool:
        return id in self._sessions

    def get(self, id: str) -> Session | None:
        return self._sessions.get(id)

    def open(self, id: str, loaded: Loaded) -> Session:
        """A new one, which knows the system prompt only."""
        session = self._sessions[id] = Session(id, loaded, self._prefixes[loaded.generation])
        self.touch(session)
        return session

    def touch(self, session: Session) -> None:
        """It is in use."""
        session.used = self._clock()

    def room(self, session: Session, tokens: int) -> None:
        """Blocks for that many tokens in all; sessions that idle make room. Raises NoBlocks."""
        missing = blocks_for(tokens) - len(session.blocks)
        if missing <= 0:
            return
        while True:
            try:
                session.blocks += self.blocks.take(missing)
                return
            except NoBlocks:  # not a recovery path: room is made, and nothing has failed
                if not self._evict(but=session):
                    raise

    def close(self, session: Session) -> None:
        """It is over here: its blocks are free. Whoever still computes for it must have stopped."""
        if self._sessions.get(session.id) is session:
            del self._sessions[session.id]
        self.blocks.give(session.own)
        session.blocks = session.blocks[:SHARED]
        session.fed = min(session.fed, len(SYSTEM))

    def leak(self, session: Session) -> None:
        """The deliberate bug: it is over, and nobody gives its blocks back."""
        self._sessions.pop(session.id, None)

    def close_idle(self) -> list[Session]:
        """Those that nobody has used for a while."""
        before = self._clock() - self._idle
        idle = [s for s in self._sessions.values() if s.used < before and not s.busy.locked()]
        for session in idle:
            self.close(session)
        return idle

    def generations(self) -> set[int]:
        """Those that sessions live on."""
        return {session.loaded.generation for session in self._sessions.values()}

    def add_prefix(self, generation: int) -> list[int]:
        """Blocks for the system prompt of a generation."""
        if generation not in self._prefixes:
            self._prefixes[generation] = self.blocks.take(SHARED)
        return self._prefixes[generation]

    def drop_prefix(self, generation: int) -> None:
        """No session of this generation will come any more."""
        self.blocks.give(self._prefixes.pop(generation, []))

    def all(self) -> list[Session]:
        return list(self._sessions.values())

    def _evict(self, but: Session) -> bool:
        idle = [s for s in self._sessions.values() if s is not but and not s.busy.locked()]
        if not idle:
            return False
        self.close(min(idle, key=lambda session: session.used))
        return True
