"""Who leads: epochs that only grow, and the one lease."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from targets.trainer.store.durable import Disk
from targets.trainer.wire import Refused

Emit = Callable[..., None]


class _Record(msgspec.Struct, kw_only=True):
    """What outlives the store's process."""

    highest: int = 0
    holder: str | None = None
    ttl: float = 0.0
    outcome: str | None = None  # of the job, once it has ended


class Ledger:
    """The highest epoch ever issued, and its holder's lease. An epoch is durable before anyone hears of it.

    Safe in threads: a renewal need not wait for a slow write.
    `raising=False` is a deliberate bug: a new incarnation gets the old number.
    """

    def __init__(
        self,
        folder: Path,
        emit: Emit,
        disk: Disk | None = None,
        *,
        raising: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._disk = disk or Disk()
        self._path, self._emit, self._raising, self._clock = folder / "epoch.json", emit, raising, clock
        self._record = msgspec.json.decode(self._path.read_bytes(), type=_Record) if self._path.exists() else _Record()
        # A restarted store cannot know how much of the lease is left: it grants all of it.
        self._expires = clock() + self._record.ttl
        self._advanced_from: int | None = None
        self._acquired: tuple[str, dict[str, Any]] = "", {}
        self._turn = threading.Lock()

    @property
    def highest(self) -> int:
        return self._record.highest

    def acquire(self, holder: str, ttl: float, nonce: str) -> dict[str, Any]:
        """A new epoch for `holder` where the lease is free, has run out or is its own. One `nonce` gets one epoch."""
        with self._turn:
            known, answer = self._acquired
            if nonce == known and (holder, self.highest) == (self._record.holder, answer["epoch"]):
                self._expires = self._clock() + ttl
            else:
                self._acquired = nonce, self._acquire(holder, ttl)
            return self._acquired[1]

    def _acquire(self, holder: str, ttl: float) -> dict[str, Any]:
        before = self._record.holder
        if self._record.outcome is not None:
            raise Refused({"error": "finished", "outcome": self._record.outcome})
        if before not in (None, holder):
            remaining = self._expires - self._clock()
            if remaining > 0:
                raise Refused({"error": "held", "holder": before, "remaining": remaining})
            self._emit("lease.expired", resource="leader", holder=before, epoch=self.highest)
        epoch = self._issue(holder, ttl, "acquired")
        self._emit("lease.granted", resource="leader", holder=holder, epoch=epoch, ttl=ttl)
        return {"epoch": epoch, "ttl": ttl, "previous": before}

    def renew(self, holder: str, token: int, ttl: float) -> dict[str, Any]:
        """Extend the holder's lease. One that ran out but that nobody else took is still the holder's."""
        with self._turn:
            self._check(holder, token, "renew")
            self._expires = self._clock() + ttl
        return {"ttl": ttl}

    def advance(self, holder: str, token: int, ttl: float, reason: str) -> dict[str, Any]:
        """The next epoch for a new incarnation under the same holder."""
        with self._turn:
            if token == self._advanced_from and holder == self._record.holder and token < self.highest:
                return {"epoch": self.highest}  # a repeated try of the last advance
            self._check(holder, token, "advance")
            epoch = self._issue(holder, ttl, reason)
            self._advanced_from = token
        return {"epoch": epoch}

    def finish(self, outcome: str) -> dict[str, Any]:
        """The job has ended; nobody need lead it any more."""
        self._record.outcome = outcome
        self._save()
        return {}

    def _check(self, holder: str, token: int, what: str) -> None:
        if token != self.highest or holder != self._record.holder:
            self._emit("epoch.rejected", member=holder, token=token, highest=self.highest, what=what)
            raise Refused({"error": "stale-epoch", "highest": self.highest})

    def _issue(self, holder: str, ttl: float, reason: str) -> int:
        if self._raising or not self._record.highest:
            self._record.highest += 1
        self._record.holder, self._record.ttl = holder, ttl
        self._save()
        self._expires, self._advanced_from = self._clock() + ttl, None
        self._emit("epoch.issued", epoch=self.highest, holder=holder, reason=reason)
        return self.highest

    def _save(self) -> None:
        self._disk.write(self._path, msgspec.json.encode(self._record))
