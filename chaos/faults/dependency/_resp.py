"""A Redis, or what speaks its protocol, at the end of a link: calls and answers (RESP 2), and its keys."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Annotated

from msgspec import Meta

from chaos.api import JSON
from chaos.errors import NotLanded
from chaos.talk import Dials, Line

Link = Annotated[
    str, Meta(description="a link that the target declares, to a Redis or what speaks its protocol", examples=["store"])
]
Keys = Annotated[str, Meta(description="a glob over keys, as the server understands it", examples=["f:*"])]
ANSWERS_WITHIN = 5.0
SCANNED = 500  # keys that one step of a scan looks at
AT_ONCE = 500  # keys of one call

Value = bytes | int | None | list["Value"]


class Refused(Exception):
    """The server answered with an error."""


class Resp:
    """One connection; one call at a time."""

    def __init__(self, line: Line) -> None:
        self._line, self._rest = line, b""

    def about(self) -> JSON:
        """For the record."""
        return {"mechanism": "RESP", **self._line.about()}

    async def __call__(self, *words: bytes | str | int) -> Value:
        """The answer; raises Refused where it is an error, NotLanded where none comes."""
        await self._line.send(encoded(words))
        return await self._value()

    async def all(self, calls: Sequence[Sequence[bytes | str | int]]) -> list[Value | Refused]:
        """The answers to many calls, sent at once; one that the server refuses is among them."""
        await self._line.send(b"".join(map(encoded, calls)))
        answers: list[Value | Refused] = []
        for _ in calls:
            try:
                answers.append(await self._value())
            except Refused as error:
                answers.append(error)
        return answers

    async def keys(self, pattern: str) -> list[bytes]:
        """All that match, in the order of their names."""
        found: set[bytes] = set()
        cursor: bytes | str = "0"
        while True:
            answer = await self("SCAN", cursor, "MATCH", pattern, "COUNT", SCANNED)
            assert isinstance(answer, list)
            cursor, some = _bytes(answer[0]), answer[1]
            assert isinstance(some, list)
            found.update(_bytes(key) for key in some)
            if cursor == b"0":
                return sorted(found)

    async def _value(self) -> Value:
        line = await self._until_line()
        kind, text = line[:1], line[1:]
        match kind:
            case b"+":
                return text
            case b"-":
                raise Refused(text.decode(errors="backslashreplace"))
            case b":":
                return int(text)
            case b"$":
                return None if int(text) < 0 else (await self._until(int(text) + 2))[:-2]
            case b"*":
                return None if int(text) < 0 else [await self._element() for _ in range(int(text))]
        raise NotLanded(f"an answer that is no RESP: {line[:40]!r}")

    async def _element(self) -> Value:
        return await self._value()

    async def _until_line(self) -> bytes:
        while b"\r\n" not in self._rest:
            self._rest += await self._line.receive(ANSWERS_WITHIN)
        line, _, self._rest = self._rest.partition(b"\r\n")
        return line

    async def _until(self, size: int) -> bytes:
        while len(self._rest) < size:
            self._rest += await self._line.receive(ANSWERS_WITHIN)
        data, self._rest = self._rest[:size], self._rest[size:]
        return data


@asynccontextmanager
async def calling(target: Dials, link: str) -> AsyncIterator[Resp]:
    """A connection to the server at the end of the link."""
    async with target.dial(link) as line:
        yield Resp(line)


def encoded(words: Sequence[bytes | str | int]) -> bytes:
    """A call as it goes over the wire."""
    parts = [w if isinstance(w, bytes) else str(w).encode() for w in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts)


def _bytes(value: Value) -> bytes:
    assert isinstance(value, bytes)
    return value


def shown(key: bytes) -> str:
    """A key for the record."""
    return key.decode(errors="backslashreplace")
