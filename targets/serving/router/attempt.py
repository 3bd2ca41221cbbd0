"""One attempt at one replica, and what it teaches about it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Protocol

import aiohttp
from opentelemetry.trace import Span
from yarl import URL

from targets.serving.router.asked import GENERATE, RANK, Asked
from targets.serving.router.facts import Facts
from targets.serving.router.fleet import Fleet
from targets.serving.router.lag import Lag
from targets.serving.router.meters import Meters
from targets.serving.router.replica import Patience, Replica
from targets.serving.router.result import Kind, Result, of_answer
from targets.serving.tracing import PARENT, Tracing, header
from targets.serving.wire import ATTEMPT, ID, PRIORITY

FAIR = 4.0  # times the usual service time: who had less is not to blame for not having made it

BROKEN = (aiohttp.ClientError, OSError)
"""What a refused or broken connection raises. A TimeoutError is an OSError, so look for it first."""


class Reader(Protocol):
    """Reads the stream that answers an attempt."""

    @property
    def streamed(self) -> int:
        """How many tokens the client has."""

    def opened(self, headers: Mapping[str, str]) -> None:
        """The stream begins."""

    async def take(self, line: bytes) -> float | None:
        """A line of it; how long the next one may take, or None when the stream is complete."""


class ClientGone(Exception):
    """The client does not wait for its answer any more."""


class StreamError(Exception):
    """The replica said that it cannot go on."""


class Attempter:
    """Makes attempts, and keeps the books of them."""

    def __init__(
        self, http: aiohttp.ClientSession, fleet: Fleet, facts: Facts, tracing: Tracing, meters: Meters, lag: Lag
    ) -> None:
        self._http, self._fleet, self._facts, self._lag = http, fleet, facts, lag
        self._tracing, self._meters = tracing, meters
        self._urls = {
            (replica, what): URL(f"{replica.url}/{what}") for replica in fleet.replicas for what in (RANK, GENERATE)
        }

    async def __call__(
        self,
        asked: Asked,
        replica: Replica,
        number: int,
        *,
        body: bytes,
        limit: float,
        usual: float,
        headers: Mapping[str, str],
        reader: Reader | None = None,
    ) -> Result:
        """Ask `replica`, and wait `limit` seconds for it; with `reader`, for each line of a stream.

        `usual`: how long such a request takes.
        """
        trial, began = self._fleet.begin(replica), time.monotonic()
        with (
            self._tracing.span("attempt", asked.id, replica=replica.name, number=number) as span,
            Patience(replica, limit) as patience,
        ):
            sent = {ID: asked.id, PRIORITY: asked.priority, ATTEMPT: str(number), PARENT: header(span), **headers}
            result = await self._guarded(self._urls[replica, asked.what], body, sent, patience, reader)
            _describe(span, result)
        if result.kind is Kind.ANSWER:
            patience.heard()
        result = result._replace(seconds=time.monotonic() - began, attempts=number)
        fair = limit >= FAIR * usual + self._lag.since(began)
        self._learn(replica, result, trial=trial, fair=fair)
        self._tell(asked, replica, result, reader)
        return result

    async def _guarded(
        self, url: URL, body: bytes, headers: Mapping[str, str], patience: Patience, reader: Reader | None
    ) -> Result:
        """The result, whatever happens on the way."""
        try:
            async with patience.timeout, self._http.post(url, data=body, headers=headers) as response:
                if reader is None or response.status != 200:
                    return of_answer(response.status, response.headers, await response.read())
                return await _stream(response, patience, reader)
        except TimeoutError:
            if patience.abandoned:
                return Result(Kind.FAILED, reason="its replica was ejected")
            return Result(Kind.LATE, reason="no answer in time")
        except StreamError as error:
            return Result(Kind.FAILED, reason=str(error))
        except ClientGone:
            return Result(Kind.GONE, reason="the client has gone")
        except BROKEN as error:
            return Result(Kind.FAILED, reason=f"{type(error).__name__}: {error}", broken=True)

    def _tell(self, asked: Asked, replica: Replica, result: Result, reader: Reader | None) -> None:
        self._meters.attempt(replica.name, result.kind.value)
        self._facts.emit_soon(
            "attempt.completed",
            id=asked.id,
            replica=replica.name,
            attempt=result.attempts,
            status=result.status,
            seconds=round(result.seconds, 6),
            streamed=reader.streamed if reader else 0,
            draining=result.kind is Kind.DRAINING,
            **({"queued": round(asked.queued, 6)} if result.attempts == 1 else {}),
        )

    def _learn(self, replica: Replica, result: Result, *, trial: bool, fair: bool) -> None:
        match result.kind:
            case Kind.ANSWER:
                self._fleet.answered(replica, trial=trial)
            case Kind.DRAINING:
                self._fleet.drains(replica, trial=trial)
            case Kind.FAILED:
                self._fleet.failed(replica, trial=trial, broken=result.broken)
            case Kind.DEPENDENCY:
                self._fleet.lacks(replica, trial=trial)
            case Kind.LATE if fair:
                self._fleet.failed(replica, trial=trial, broken=False)
            case _:
                self._fleet.mistaken(replica, trial=trial)


async def _stream(response: aiohttp.ClientResponse, patience: Patience, reader: Reader) -> Result:
    """Hand on the lines as they come."""
    reader.opened(response.headers)
    while content := await response.content.readline():
        patience.heard()
        patience.renew(None)  # how fast the client reads is not the replica's doing
        limit = await reader.take(content)
        if limit is None:
            return Result(Kind.ANSWER, 200)
        patience.renew(limit)
    return Result(Kind.FAILED, reason="the stream broke off", broken=True)


def _describe(span: Span, result: Result) -> None:
    span.set_attribute("result", result.kind.value)
    span.set_attribute("http.status_code", result.status)
