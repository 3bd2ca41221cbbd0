"""Keeps sessions elsewhere while they grow, and finds them again."""

from __future__ import annotations

import time

from chaos import inside
from targets.serving.logs import Log
from targets.serving.replica.engine import Engine
from targets.serving.replica.points import stand
from targets.serving.replica.saving import FAILURES, Fenced, Incomplete, Lose, Way
from targets.serving.replica.sessions import Session
from targets.serving.replica.state import State, put, take


class Keeper:
    """One way of saving, for all sessions of this replica."""

    def __init__(self, way: Way, every: int, engine: Engine, replica: str, log: Log, *, insists: bool = False) -> None:
        self._way, self._every, self._engine = way, max(every, 1), engine
        self._insists = insists
        self._replica, self._log = replica, log
        self._keeps = not isinstance(way, Lose)

    @property
    def name(self) -> str:
        return self._way.name

    async def own(self, session: Session, known: int) -> None:
        """From now on this turn's token counts."""
        session.token = await self._way.acquire(session.id, max(session.token, known))

    async def find(self, session: Session, expected: list[int]) -> tuple[State, int] | None:
        """What is kept of it that fits `expected`, and of how many tokens."""
        best: tuple[State, int] | None = None
        for state in await self._way.find(session.id):
            head = state.head
            if (head.generation, head.digest) != (session.loaded.generation, session.loaded.digest):
                continue
            common = next((i for i, (a, b) in enumerate(zip(head.tokens, expected, strict=False)) if a != b), None)
            usable = min(head.fed, len(expected) if common is None else common)
            if best is None or usable > best[1]:
                best = state, usable
        return best

    def restore(self, session: Session, state: State, tokens: int) -> None:
        """Put the keys and values of that many tokens where the session, which has room for them, looks for them."""
        put(state, session, self._engine.cache, tokens)
        session.saved, session.sums = 0, {}

    async def grown(self, session: Session, *, last: bool) -> None:
        """A session has grown: save it if that is due. Raises Fenced."""
        new = session.fed - session.saved
        if self._keeps and (new >= self._every or (last and new > 0)):
            await self._save(session)

    async def _save(self, session: Session) -> None:
        await stand("session.saving", replica=self._replica, session=session.id, turn=session.turn)
        try:
            began = time.monotonic()
            try:
                kept = await self._way.save(take(session, self._engine.cache))
            except Incomplete:
                with inside.recovery_path("session.resend"):
                    session.saved, session.sums = 0, {}
                    began = time.monotonic()
                    kept = await self._way.save(take(session, self._engine.cache))
            seconds = round(time.monotonic() - began, 6)
        except Fenced as fenced:
            facts = {"resource": f"session/{session.id}", "op": "kv.write", "member": self._replica}
            inside.emit("write.rejected", **facts, token=session.token, highest=fenced.highest, reason="stale-epoch")
            raise
        except (*FAILURES, Incomplete) as error:
            if self._insists:
                raise
            with inside.recovery_path("session.unkept"):
                self._log.warning("a session could not be saved", session=session.id, reason=type(error).__name__)
            return
        session.saved = session.fed
        inside.emit(
            "kv.written",
            replica=self._replica, session=session.id, tokens=session.fed, to=kept.to,
            token=session.token, highest=kept.highest, seconds=seconds,
        )  # fmt: skip
