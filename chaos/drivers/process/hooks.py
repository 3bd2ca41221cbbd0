"""Faults inside a member: hooks at the sites where it offers its values (`chaos.inside.tamper` is the other end)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from itertools import count

import anyio
from anyio.abc import ByteSendStream

from chaos.api import JSON, Member, Stage
from chaos.errors import HealFailed, NotLanded

ANSWER = 5.0  # seconds that a member may take to obey; its thread needs some milliseconds
HITS_KEPT = 3  # of each hook, for the heal's evidence


class Channel:
    """One process that listens for hooks."""

    def __init__(self, stream: ByteSendStream, member: str, sites: Iterable[str]) -> None:
        self.member, self.sites = member, tuple(sites)
        self._stream, self._turn = stream, anyio.Lock()

    async def say(self, order: JSON) -> bool:
        """Whether there was somebody to tell."""
        try:
            async with self._turn:
                await self._stream.send(json.dumps(order, separators=(",", ":")).encode() + b"\n")
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return False
        return True


class _Armed:
    """A hook that stands for a member, whatever process bears its name."""

    def __init__(self, number: int, member: str, site: str, change: JSON) -> None:
        self.number, self.member, self.site, self.change = number, member, site, change
        self.hits: list[JSON] = []
        self.count = 0
        self.refused: str | None = None
        self.answers: set[str] = set()
        self.news = anyio.Event()

    def order(self) -> JSON:
        """What tells a process of it; what it has hit already counts."""
        times = self.change.get("times")
        left = {} if times is None else {"times": times - self.count}
        return {"op": "arm", "id": self.number, "site": self.site, "change": {**self.change, **left}}

    @property
    def spent(self) -> bool:
        times = self.change.get("times")
        return times is not None and self.count >= times

    def tell(self) -> None:
        self.news.set()
        self.news = anyio.Event()


class Hooking:
    """Implements Hooks over the channels that members open."""

    def __init__(self, stage: Stage) -> None:
        self._stage_of_hooks = stage
        self._channels: dict[int, Channel] = {}  # by process id as the harness sees it
        self._armed: dict[int, _Armed] = {}
        self._numbers = count(1)

    # --- what members say

    async def hooked(self, pid: int, channel: Channel) -> None:
        """A process listens from now on; it waits to hear what stands."""
        standing = [a.order() for a in self._armed.values() if a.member == channel.member and not a.spent]
        self._channels[pid] = channel
        await channel.say({"standing": standing})

    def unhooked(self, pid: int) -> None:
        """That process listens no more."""
        self._channels.pop(pid, None)
        for armed in self._armed.values():
            armed.tell()

    def hook_said(self, channel: Channel, kind: str, data: JSON, t: float | None) -> None:
        """A process obeyed, or a hook of it hit."""
        armed = self._armed.get(data.pop("id", 0))
        if kind == "hit":
            if armed is not None:
                armed.count += 1
                armed.hits = [*armed.hits[-HITS_KEPT + 1 :], data]
            self._stage_of_hooks.record(channel.member, "hook.hit", {"member": channel.member, **data}, t)
        elif armed is not None:
            armed.answers.add(kind)
            armed.refused = data.get("reason") or armed.refused
        if armed is not None:
            armed.tell()

    # --- Hooks

    async def arm(self, member: Member, site: str, change: JSON) -> int:
        channel = self._channels.get(member.pid)
        if channel is None or site not in channel.sites:
            known = ", ".join(channel.sites) if channel else "none"
            raise NotLanded(f"{member.name} offers no site {site}; those it offers: {known}")
        armed = _Armed(next(self._numbers), member.name, site, change)
        self._armed[armed.number] = armed
        try:
            if not await channel.say(armed.order()):
                raise NotLanded(f"{member.name} has already gone")
            with anyio.move_on_after(ANSWER):
                while not armed.answers and member.pid in self._channels:
                    await armed.news.wait()
            if not armed.answers:
                raise NotLanded(f"{member.name} did not arm its hook at {site}")
        except BaseException:
            with anyio.CancelScope(shield=True), suppress(HealFailed):
                await self.disarm(armed.number)
            raise
        return armed.number

    async def wait_hit(self, number: int, timeout: float) -> JSON:
        armed = self._armed[number]
        with anyio.move_on_after(timeout):
            while not armed.hits and armed.refused is None:
                await armed.news.wait()
        if armed.refused is not None:
            raise NotLanded(f"{armed.member} cannot do that at {armed.site}: {armed.refused}")
        if not armed.hits:
            raise NotLanded(f"{armed.member} was armed at {armed.site}, and nothing was hit within {timeout:g} s")
        return {"member": armed.member, **armed.hits[0]}

    async def disarm(self, number: int) -> JSON:
        armed = self._armed.pop(number, None)
        if armed is None:
            return {"hits": 0}
        listening = [(pid, c) for pid, c in self._channels.items() if c.member == armed.member]
        self._armed[number] = armed  # to hear the answers; it is spent, so nobody is armed with it again
        armed.change = {**armed.change, "times": 0}
        try:
            for pid, channel in listening:
                armed.answers.discard("disarmed")
                if await channel.say({"op": "disarm", "id": number}):
                    await self._disarmed(armed, pid)
        finally:
            del self._armed[number]
        return {"member": armed.member, "hits": armed.count, "last": armed.hits[-1:]}

    async def _disarmed(self, armed: _Armed, pid: int) -> None:
        with anyio.move_on_after(ANSWER):
            while "disarmed" not in armed.answers and pid in self._channels:
                await armed.news.wait()
            return
        raise HealFailed(
            f"{armed.member} does not answer: the hook at {armed.site} may still be armed", undo=f"kill -KILL {pid}"
        )
