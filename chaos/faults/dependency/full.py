"""A store whose memory is full."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from chaos.api import JSON, Fault, Landing, Selection, Selector
from chaos.errors import HealFailed, NotLanded
from chaos.faults.dependency._resp import Link, Refused, Resp, calling, more
from chaos.talk import Dials, NobodyThere

HEALS_WITHIN = 8.0
PROBE = "chaos:probe"
REFUSALS = ("errorstats", "errorstat_OOM:count")
LEAST = 1  # byte that it may have: fewer than it uses
SETTINGS = ("maxmemory", "maxmemory-policy")


class Full(Fault[Dials], frozen=True, kw_only=True):
    """Have a Redis refuse whatever needs memory (`-OOM`): reads go on, writes fail.

    Its `maxmemory` is set below what it uses, and nothing is evicted.

    Proof: a key of the harness is refused with OOM, and was not before. How many others were refused is what the server
    counts (Redis 6.2 and later); where none was, nobody needed memory and nothing is proved.

    Heal: both settings are what they were, and a key of the harness is taken.
    """

    fidelity = (
        "a cache that has filled up, or a limit that was set too low. The server answers at once; one that evicts "
        "instead, or is killed by the kernel, is not shown (dependency.stampede, process.oom)."
    )

    members: Selector = Selector(roles=("store",))  # the server, for the record: whom it hits is said by the link
    link: Link = "store"

    def sections(self) -> tuple[str, ...]:
        return ("links",)

    def selectors(self) -> tuple[Selector, ...]:
        return (self.members,)

    @asynccontextmanager
    async def inject(self, target: Dials, *hit: Selection) -> AsyncIterator[Landing]:
        if not hit[0].members:
            raise NotLanded("no server selected")
        before: dict[str, bytes] = {}
        landing, refused = Landing({}), None
        try:
            async with calling(target, self.link) as redis:
                landing.evidence = {**redis.about(), **await self._fill(redis, before)}
                refused = await redis.counted(*REFUSALS)
            yield landing
        finally:
            with anyio.CancelScope(shield=True, deadline=anyio.current_time() + HEALS_WITHIN):
                landing.met = await more(target, self.link, refused, *REFUSALS)
                landing.healed = await _give_back(target, self.link, before)

    async def _fill(self, redis: Resp, before: dict[str, bytes]) -> JSON:
        try:
            await redis("SET", PROBE, "1", "PX", 1000)
            for name in SETTINGS:
                answer = await redis("CONFIG", "GET", name)
                assert isinstance(answer, list)
                value = answer[1] if len(answer) > 1 else None
                if not isinstance(value, bytes):
                    raise NotLanded(f"the server does not tell its {name}")
                before[name] = value
            await redis("CONFIG", "SET", "maxmemory-policy", "noeviction")
            await redis("CONFIG", "SET", "maxmemory", LEAST)
        except Refused as error:
            raise NotLanded(f"the server refuses: {error}") from error
        refused = await _refusal(redis)
        if not refused.startswith("OOM"):
            raise NotLanded(f"a key of the harness is taken all the same ({refused or 'no error'})")
        return {"refused": refused, "before": {name: value.decode() for name, value in before.items()}}


async def _refusal(redis: Resp) -> str:
    """Why a key of the harness is refused; empty where it is taken."""
    try:
        await redis("SET", PROBE, "1", "PX", 1000)
    except Refused as error:
        return str(error)
    return ""


async def _give_back(target: Dials, link: str, before: dict[str, bytes]) -> JSON:
    if not before:
        return {"settings": {}}
    settings = {name: value.decode() for name, value in before.items()}
    undo = "end the target, or " + " and ".join(f"CONFIG SET {name} {value}" for name, value in settings.items())
    try:
        async with calling(target, link) as redis:
            for name, value in before.items():
                await redis("CONFIG", "SET", name, value)
            if refused := await _refusal(redis):
                raise HealFailed(f"the server of link {link} still refuses: {refused}", undo=undo)
    except NobodyThere as error:
        return {"gone": str(error)}  # and its settings with it
    except (NotLanded, Refused) as error:
        raise HealFailed(f"the server of link {link} is not as it was: {error}", undo=undo) from error
    return {"settings": settings}
