"""`POST /rank`: one answer, as a whole."""

from __future__ import annotations

from aiohttp import web

from targets.serving.router.asked import RANK, Asked, answer, shed
from targets.serving.router.attempt import Attempter
from targets.serving.router.door import Door
from targets.serving.router.ladder import Ladder
from targets.serving.router.replica import Replica
from targets.serving.router.result import NOBODY, Kind, Result
from targets.serving.router.tries import Tries
from targets.serving.wire import ATTEMPTS, DEADLINE, TIER

MARGIN = 0.03  # seconds


class Ranking:
    """Hands ranking requests on. They change nothing, so each may be tried again."""

    def __init__(self, door: Door, tries: Tries, attempter: Attempter, ladder: Ladder) -> None:
        self._door, self._tries, self._attempter, self._ladder = door, tries, attempter, ladder

    async def __call__(self, request: web.BaseRequest, asked: Asked) -> web.StreamResponse:
        """The answer of some replica. What is in the body is for it to judge."""
        body = await request.read()
        async with self._door.visit(asked) as visit:

            async def one(replica: Replica, number: int, limit: float) -> Result:
                return await self._attempter(
                    asked,
                    replica,
                    number,
                    body=body,
                    limit=limit,
                    usual=self._door.admission.service(RANK),
                    headers={TIER: self._ladder.tier, DEADLINE: str(handed_down(limit))},
                )

            result = await self._tries.run(
                asked, one, usual=self._door.admission.service(RANK), path=lambda: "request.retry"
            )
            visit.measured = result.kind is Kind.ANSWER and result.attempts == 1
        if result.kind not in (Kind.MISTAKE, Kind.GONE) and result is not NOBODY:
            self._ladder.ended(result.kind is Kind.ANSWER, result.seconds)
        if result.kind is Kind.SHED:
            self._door.refused(asked, result.reason, waited=result.seconds)
        return finished(result)


def handed_down(limit: float) -> int:
    """Milliseconds for a replica, less what its answer needs to come here: why it fails is worth knowing."""
    return max(int((limit - min(MARGIN, limit / 10)) * 1000), 0)


def finished(result: Result) -> web.Response:
    """The client's answer, where nothing was sent yet."""
    attempts = {ATTEMPTS: str(result.attempts)}
    match result.kind:
        case Kind.ANSWER | Kind.MISTAKE:
            return answer(result.status, result.body, attempts)
        case Kind.SHED:
            response = shed(result.reason)
            response.headers.update(attempts)
            return response
        case Kind.LATE:
            return answer(504, {"error": result.reason}, attempts)
        case _:
            return answer(503, {"error": result.reason}, attempts)
