"""A rule that stands: what matches, what is hit, and the proof."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Protocol

import anyio

from chaos.api import JSON
from chaos.drivers.process.fittings.tap.act import ACTIONS, Deed
from chaos.drivers.process.fittings.tap.operation import Operation
from chaos.drivers.process.fittings.tap.server import Answer, Pending, Step
from chaos.drivers.process.fittings.tap.unsynced import Unsynced
from chaos.errors import NotLanded
from chaos.fileops import Rule
from chaos.trigger import matches_path

MECHANISM = "seccomp user notification"
MOST_TOLD = 12  # hits in the evidence
DIES_WITHIN = 5.0  # seconds from SIGKILL to the end of a process


class House(Protocol):
    """What a rule lives in."""

    unsynced: Unsynced

    def do(self, what: Callable[[], None]) -> None:
        """Have it done in the tap's thread."""

    def tell(self, what: Callable[[], None]) -> None:
        """Have it done in the event loop."""

    def resume(self, pending: Pending, step: Step, after: float = 0.0) -> None:
        """Go on with an operation that waits."""

    def pass_on(self, pending: Pending) -> Answer | None:
        """The way of an operation that no rule stops any more."""

    def forget(self, armed: Armed) -> None:
        """It stands no longer."""


class Armed:
    """Implements Tapped. What is counted lives in the tap's thread, what is waited for in the event loop."""

    def __init__(self, rule: Rule, names: Sequence[str] | None, house: House) -> None:
        self.rule = rule
        self._names = None if names is None else frozenset(names)
        self._house = house
        self._matched = self._hits = self._delivered = 0
        self._told: list[JSON] = []
        self._waiting: list[Deed] = []  # hit, and held until `before` has been called
        self._released = False  # from then on they are not held
        self._slow: list[Deed] = []
        self._met, self._proved = anyio.Event(), anyio.Event()
        self._lifted: JSON = {}

    # --- in the thread

    def meets(self, operation: Operation, paths: Sequence[str], who: Callable[[], str]) -> str | None:
        """Count the operation if it matches; the path where it is hit."""
        rule = self.rule
        if set(rule.ops).isdisjoint(operation.ops):
            return None
        path = next((path for path in reversed(paths) if matches_path(rule.path, path)), None)
        if path is None or (self._names is not None and who() not in self._names):
            return None
        self._matched += 1
        return path if rule.due(self._matched) else None

    def hit(self, pending: Pending, who: str, path: str) -> Answer | None:
        """The answer to an operation that is hit, or None where it has to wait."""
        self._hits += 1
        operation = pending.operation
        facts: JSON = {
            "member": who, "pid": operation.pid, "op": operation.op, "syscall": operation.syscall, "path": path,
            "n": self._matched,
        }  # fmt: skip
        if operation.size is not None:
            facts["bytes"] = operation.size
        deed = Deed(pending, self.rule, facts, self._house.unsynced)
        if self._released:
            return self._do(deed)
        self._waiting.append(deed)
        self._house.tell(self._met.set)
        return None

    def _release(self) -> None:
        self._released = True
        for deed in self._waiting:
            self._house.resume(deed.pending, lambda deed=deed: self._do(deed))  # type: ignore[misc]
        self._waiting.clear()

    def _do(self, deed: Deed) -> Answer | None:
        pending = deed.pending
        if self.rule.action == "delay":
            pending.did = f"delayed {self.rule.delay:g} s"
            self._slow.append(deed)
            self._house.resume(pending, lambda: self._wake(deed), self.rule.delay)
            self._prove(deed)
            return None
        said = ACTIONS[self.rule.action](deed)
        pending.did = deed.did
        if said is None:
            self._prove(deed)
        else:
            pending.delivered = lambda reached: self._prove(deed) if reached else None
        return said

    def _wake(self, deed: Deed) -> Answer | None:
        self._slow.remove(deed)
        deed.facts["waited"] = round(time.monotonic() - deed.since, 6)
        return self._house.pass_on(deed.pending)

    def _prove(self, deed: Deed) -> None:
        """The member got it."""
        self._delivered += 1
        if self._delivered > 1 and "victim" in deed.facts:
            os.close(deed.facts.pop("victim"))
        if len(self._told) < MOST_TOLD:
            self._told.append(deed.facts)
        self._house.tell(self._proved.set)

    def _end(self, told: Callable[[], None]) -> None:
        held = [*self._waiting, *self._slow]
        for deed in self._waiting:
            self._house.resume(deed.pending, lambda deed=deed: self._house.pass_on(deed.pending))  # type: ignore[misc]
        for deed in self._slow:
            self._house.resume(deed.pending, lambda deed=deed: self._wake(deed))  # type: ignore[misc]
        self._waiting.clear()
        self._house.forget(self)
        for facts in self._told:
            if (victim := facts.pop("victim", None)) is not None:  # nobody waits for its end any more
                os.close(victim)
        self._lifted = {
            "mechanism": MECHANISM, "matched": self._matched, "hits": self._delivered, "let-go": len(held),
            "first": self._told,
        }  # fmt: skip
        self._house.tell(told)

    # --- in the event loop

    async def first(self, before: Callable[[], None]) -> JSON:
        await self._met.wait()
        before()
        self._house.do(self._release)
        await self._proved.wait()
        first = self._told[0]
        if (victim := first.pop("victim", None)) is not None:
            first["ended-within"] = await self._ended(victim, first["member"])
        return {"mechanism": MECHANISM, **first}

    async def _ended(self, victim: int, member: str) -> float:
        began = anyio.current_time()
        try:
            with anyio.move_on_after(DIES_WITHIN):
                await anyio.wait_readable(victim)
                return round(anyio.current_time() - began, 6)
        finally:
            os.close(victim)
        raise NotLanded(f"{member} did not end within {DIES_WITHIN:g} s of SIGKILL")

    async def lift(self) -> JSON:
        if not self._lifted:
            over = anyio.Event()
            self._house.do(lambda: self._end(over.set))
            await over.wait()
        return self._lifted
