"""Where orders arrive: pause, resume, abort, approve, reject, note; and where a day waits for time or for a person."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

import anyio

from chaos.gameday.records import Order
from chaos.gameday.store import Store

SLICE = 30.0  # a wait for the wall clock looks at it this often: it may be set, and the machine may sleep
PAUSED, UNHEALED, ABORTED = "paused", "heal failed", "aborted"  # facts in the store that outlive the process


class Endable(Protocol):
    """What runs, and can be asked to end."""

    def terminate(self) -> None: ...


class Desk:
    """`aborted` says who ended the day, and is empty until somebody does; `closing` is the signal that ends the
    service."""

    def __init__(self, store: Store, now: Callable[[], float]) -> None:
        self.aborted = ""
        self.closing: int | None = None
        self.day: int | None = None  # the one that goes on
        self.announce: Callable[[str, str], None] = lambda kind, text: None  # kind, text; of the day that goes on
        self._store = store
        self._now = now
        self._changed = anyio.Event()
        self._running: Endable | None = None

    @property
    def paused(self) -> bool:
        """Whether nothing further begins for now."""
        return bool(self._store.fact(PAUSED))

    def look(self) -> None:
        """Carry out the orders that have come. One that was begun before a kill is carried out again: no harm."""
        for order in self._store.orders():
            self._carry_out(order)
            self._store.handled(order.id, self._now())
        self._notify()

    def close(self, signum: int, why: str) -> None:
        """End the day and the service."""
        self.closing = self.closing or signum
        self.abort(why)

    def abort(self, why: str) -> None:
        """End what runs, before anything is written down about it; a day that is killed now stays aborted."""
        if self._running is not None:
            self._running.terminate()
        self.aborted = self.aborted or why
        self._notify()
        if self.day is not None:
            self._store.note(ABORTED, f"{self.day} {self.aborted}")

    def take_up(self, day: int, announce: Callable[[str, str], None]) -> None:
        """From now on orders are about that day. Those that have come are heeded, and an abort that a kill cut off."""
        self.day, self.announce = day, announce
        number, _, why = self._store.fact(ABORTED).partition(" ")
        if number == str(day):
            self.abort(why)
        self.look()

    def lay_down(self) -> None:
        """No day goes on."""
        self.day, self.announce = None, lambda kind, text: None

    @contextmanager
    def ending(self, running: Endable) -> Iterator[None]:
        """While the block goes on, an abort ends this; at once where it has come already."""
        self._running = running
        if self.aborted:
            running.terminate()
        try:
            yield
        finally:
            self._running = None

    async def until(self, condition: Callable[[], bool], at: float | None = None) -> bool:
        """Wait until it holds, or until that time of the wall clock; whether it holds."""
        while not condition():
            rest = None if at is None else at - self._now()
            if rest is not None and rest <= 0:
                return False
            with anyio.move_on_after(None if rest is None else min(rest, SLICE)):
                await self._changed.wait()
        return True

    def _notify(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    def _carry_out(self, order: Order) -> None:
        if order.what == "abort" and self.day is not None:
            self.abort(f"aborted{order.of}")
        elif order.what == "pause":
            if order.text or not self.paused:  # one without a reason takes away none
                self._store.note(PAUSED, f"paused{order.of}")
        elif order.what == "resume":
            self._store.note(PAUSED, "")
            self._store.note(UNHEALED, "")
        elif order.what in ("approve", "reject"):
            self._answer("approved" if order.what == "approve" else "rejected", order.by)
        kind = {"note": "note.taken", "approve": "approval.given", "reject": "approval.refused"}.get(
            order.what, f"order.{order.what}"
        )
        text = f"{order.text} ({order.by})" if order.what == "note" else f"{order.what}{order.of}"
        self._store.tell(self.day, kind, text, order.at)
        self.announce(kind, text)

    def _answer(self, answer: str, by: str) -> None:
        if self.day is None:
            return
        for gate in self._store.gates(self.day):
            if not gate.answer:
                self._store.answer(self.day, gate.name, answer, by)
