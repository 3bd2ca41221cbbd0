"""A store that answers with something else than was written."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, NamedTuple

import anyio
from msgspec import Meta

from chaos.api import JSON, Fault, Landing, Selection, Selector
from chaos.errors import HealFailed, NotLanded
from chaos.faults.dependency._resp import AT_ONCE, Keys, Link, Refused, Resp, calling, more, shown
from chaos.talk import Dials, NobodyThere
from chaos.units import counted

HEALS_WITHIN = 8.0
HITS = ("stats", "keyspace_hits")


class _Value(NamedTuple):
    key: bytes
    was: bytes
    now: bytes
    ttl: int  # milliseconds; not positive: it does not expire


class WrongValues(Fault[Dials], frozen=True, kw_only=True):
    """Change a bit in the values of `keys` of a Redis, `most` of them: what is read is not what was written.

    Each value keeps its length and its expiry; `at` says where in it the bit lies. Keys that hold no string are left
    alone.

    Proof: what the server gives for these keys differs in that bit from what it gave before; how many the target had
    written anew meanwhile is told. Whether anybody read is what the server counts (`keyspace_hits`, of all its keys);
    where nobody did, nothing is proved.

    Heal: the values are put back, but for those that somebody has written since; read back, they are as they were.
    """

    fidelity = (
        "memory or a client library that mangles values, a reader that takes another version of the format: silent, "
        "the server answers well. Stale or missing values are no wrong ones: dependency.stampede makes them missing."
    )

    members: Selector = Selector(roles=("store",))  # the server, for the record: whom it hits is said by the link
    link: Link = "store"
    keys: Keys = "*"
    most: Annotated[int, Meta(ge=1, description="keys, the first ones by name")] = 10_000
    at: Annotated[float, Meta(ge=0, le=1, extra={"unit": "ratio"}, description="of the value's length")] = 0.5

    def sections(self) -> tuple[str, ...]:
        return ("links",)

    def selectors(self) -> tuple[Selector, ...]:
        return (self.members,)

    @asynccontextmanager
    async def inject(self, target: Dials, *hit: Selection) -> AsyncIterator[Landing]:
        if not hit[0].members:
            raise NotLanded("no server selected")
        changed: list[_Value] = []
        landing, hits = Landing({}), None
        try:
            async with calling(target, self.link) as redis:
                seen = await self._change(redis, changed)
                landing.evidence = {
                    **redis.about(), "keys": self.keys, "changed": seen, "written_by_others": len(changed) - seen,
                    "such_as": [
                        {"key": shown(v.key), "was": v.was[:64].hex(), "now": v.now[:64].hex()} for v in changed[:3]
                    ],
                }  # fmt: skip
                hits = await redis.counted(*HITS)
            yield landing
        finally:
            with anyio.CancelScope(shield=True, deadline=anyio.current_time() + HEALS_WITHIN):
                landing.met = await more(target, self.link, hits, *HITS)
                landing.healed = await _put_back(target, self.link, changed)

    async def _change(self, redis: Resp, changed: list[_Value]) -> int:
        """How many values were wrong when they were read back; a target may notice, and write one anew at once."""
        seen = 0
        try:
            found = (await redis.keys(self.keys))[: self.most]
            for first in range(0, len(found), AT_ONCE):
                some = await self._some(redis, found[first : first + AT_ONCE])
                changed += some  # before they are: what was sent may have been done
                await _write(redis, [(value, value.now) for value in some])
                given = await _strings(redis, [value.key for value in some])
                seen += sum(now == value.now for value, now in zip(some, given, strict=True))
        except Refused as error:
            raise NotLanded(f"the server refuses: {error}") from error
        if not changed:
            raise NotLanded(f"none of {counted(len(found), 'key')} matching {self.keys} holds a string")
        if not seen:
            raise NotLanded(f"the server gives for {counted(len(changed), 'key')} what it gave before")
        return seen

    async def _some(self, redis: Resp, keys: Sequence[bytes]) -> list[_Value]:
        """What these keys hold, and what they shall hold."""
        held, expiries = await _strings(redis, keys), await redis.all([("PTTL", key) for key in keys])
        some = []
        for key, value, ttl in zip(keys, held, expiries, strict=True):
            if value:
                place = min(int(len(value) * self.at), len(value) - 1)
                wrong = value[:place] + bytes((value[place] ^ 0x40,)) + value[place + 1 :]
                some.append(_Value(key, value, wrong, ttl if isinstance(ttl, int) else -1))
        return some


async def _strings(redis: Resp, keys: Sequence[bytes]) -> list[bytes | None]:
    """The values of these keys; None for one that is gone, or holds no string."""
    values = await redis.all([("GET", key) for key in keys])
    for value in values:
        if isinstance(value, Refused) and not str(value).startswith("WRONGTYPE"):
            raise value
    return [value if isinstance(value, bytes) else None for value in values]


async def _write(redis: Resp, values: Sequence[tuple[_Value, bytes]]) -> None:
    calls = [("SET", value.key, data, *(("PX", value.ttl) if value.ttl > 0 else ())) for value, data in values]
    for answer in await redis.all(calls):
        if isinstance(answer, Refused):
            raise answer


async def _put_back(target: Dials, link: str, changed: list[_Value]) -> JSON:
    if not changed:
        return {"restored": 0}
    undo = f"end the target, or write the {counted(len(changed), 'value')} of link {link} again"
    restored = 0
    try:
        async with calling(target, link) as redis:
            for first in range(0, len(changed), AT_ONCE):
                some = changed[first : first + AT_ONCE]
                held = await _strings(redis, [value.key for value in some])
                # Others are gone, or were written by somebody since.
                mine = [value for value, now in zip(some, held, strict=True) if now == value.now]
                await _write(redis, [(value, value.was) for value in mine])
                for value, now in zip(mine, await _strings(redis, [v.key for v in mine]), strict=True):
                    if now != value.was:
                        raise HealFailed(f"{shown(value.key)} is not as it was", undo=undo)
                restored += len(mine)
    except NobodyThere as error:
        return {"gone": str(error)}  # and its memory with it
    except (NotLanded, Refused) as error:
        raise HealFailed(f"the values of link {link} are not as they were: {error}", undo=undo) from error
    return {"restored": restored, "written_by_others": len(changed) - restored}
