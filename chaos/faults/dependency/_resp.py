"""A Redis, or what speaks its protocol, at the end of a link: calls and answers (RESP 2), and its keys."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Annotated

import anyio
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
COUNTED_WITHIN = 1.0  # seconds
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

    async def counted(self, section: str, field: str) -> int | None:
        """A number out of what the server counts by itself, such as `errorstat_OOM:count` in `errorstats`; 0 where it
        has counted nothing there, None where it does not count."""
        try:
            told = await self("INFO", section)
        except Refused:
            return None
        text = told.decode(errors="replace") if isinstance(told, bytes) else ""
        name, _, part = field.partition(":")
        for line in text.splitlines():
            key, _, value = line.partition(":")
            if key == name:
                return int(value.removeprefix(f"{part}=").partition(",")[0])
        return 0 if text.strip() else None

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


async def more(target: Dials, link: str, before: int | None, section: str, field: str) -> int | None:
    """How much the server has counted there since; None where nobody knows. Soon over: a heal may stand behind it."""
    if before is None:
        return None
    with anyio.move_on_after(COUNTED_WITHIN), suppress(NotLanded):
        async with calling(target, link) as redis:
            now = await redis.counted(section, field)
            return None if now is None else max(now - before, 0)
    return None


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
