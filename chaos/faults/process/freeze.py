"""Alive to the kernel, dead to its peers."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import anyio

from chaos.api import Fault, Landing, Member, Selection, Selector, Signals
from chaos.errors import HealFailed, NotLanded
from chaos.faults.process._signals import members_of, prove, send

RUNS = "RSDIXZ"  # any state but stopped; a member that has gone meanwhile does not stand either


class Freeze(Fault[Signals], frozen=True, kw_only=True):
    """Stop members with SIGSTOP: their sockets stay open, and nobody answers.

    Proof: all threads of each process are in state T, and were not before.

    Heal: SIGCONT, and none of them is in state T any more.
    """

    fidelity = (
        "a hang: a stuck driver call, a long pause of a collector, a starved machine. The kernel still accepts "
        "connections and acknowledges data for it; a process that holds a lock of the kernel keeps holding it."
    )

    members: Selector

    def selectors(self) -> tuple[Selector, ...]:
        return (self.members,)

    @asynccontextmanager
    async def inject(self, target: Signals, *hit: Selection) -> AsyncIterator[Landing]:
        members = members_of(hit[0])
        if stopped := [m.name for m in members if target.state(m) == "T"]:
            raise NotLanded(f"stopped already: {', '.join(stopped)}; the heal would end what somebody else began")
        landing = Landing({})
        try:
            reached = await send(target, members, signal.SIGSTOP)
            landing.evidence = {"signal": "SIGSTOP", "members": await prove(target, reached, "T")}
            yield landing
        finally:
            with anyio.CancelScope(shield=True):
                await thaw(target, members, landing)


async def thaw(target: Signals, members: Sequence[Member], landing: Landing) -> None:
    """SIGCONT to all, first of all; then the proof that each runs, or has gone."""
    for member in members:
        try:
            await target.signal(member, signal.SIGCONT)
        except NotLanded:
            continue  # it has gone: nothing stands there
    try:
        landing.healed = {"signal": "SIGCONT", "members": await prove(target, members, RUNS)}
    except NotLanded as error:
        pids = " ".join(str(member.pid) for member in members)
        raise HealFailed(f"still frozen: {error}", undo=f"kill -CONT {pids}") from error
