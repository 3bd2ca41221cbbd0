"""The replicas together: who is in rotation, who is ejected and returns, and who gets the next attempt."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Collection, Sequence

from targets.serving.defects import CLIENT_ERRORS_COUNT, EJECTS_ALL, IGNORES_HEALTH, NEVER_RETURNS, active
from targets.serving.router.breaker import HALF_OPEN, Breaker
from targets.serving.router.facts import Facts
from targets.serving.router.health import Finding, Health
from targets.serving.router.outlier import Outliers, may_eject
from targets.serving.router.replica import Replica
from targets.serving.router.window import Clock
from targets.serving.settings import Address, Settings


class Fleet:
    """All replicas, as polls and attempts show them."""

    def __init__(self, addresses: Sequence[Address], settings: Settings, facts: Facts, clock: Clock) -> None:
        self._settings, self._facts = settings, facts
        self.replicas = [
            Replica(
                i,
                address,
                Health(out=settings.health_out, back=settings.health_in),
                Breaker(failures=settings.outlier_least, open_for=settings.breaker_open, clock=clock),
            )
            for i, address in enumerate(addresses)
        ]
        self._outliers, self._lacking = (
            Outliers(
                [replica.name for replica in self.replicas],
                window=settings.outlier_window,
                rate=settings.outlier_rate,
                least=settings.outlier_least,
                clock=clock,
            )
            for _ in range(2)
        )
        self._order = itertools.count(1)
        self.changed = asyncio.Event()  # set at each change of the rotation

    # --- Rotation -----------------------------------------------------------------------------------------------------

    @property
    def rotation(self) -> list[Replica]:
        if active(self._settings, IGNORES_HEALTH):
            return self.replicas
        return [replica for replica in self.replicas if replica.out is None]

    def choose(self, tried: Collection[Replica], prefer: Sequence[int] = ()) -> Replica | None:
        """Who gets the next attempt: the first preferred one that is fit, else the one with the least to do.

        One that was tried is tried again only where there is nobody else. A replica on trial gets the first attempt
        of some request: its client has others left.
        """
        if not tried and (trial := next((r for r in self.replicas if self._on_trial(r)), None)):
            return trial
        rotation = self.rotation
        fit = [replica for replica in rotation if replica not in tried] or rotation
        for index in prefer:
            if wanted := next((replica for replica in fit if replica.index == index), None):
                return wanted
        return min(fit, key=lambda replica: (replica.outstanding, replica.chosen), default=None)

    def others(self, replica: Replica) -> bool:
        """Whether an attempt may go elsewhere than to `replica`."""
        return any(other is not replica for other in self.rotation)

    def spares(self, replica: Replica) -> bool:
        """Whether an attempt that failed at `replica` for want of something it needs may go better elsewhere."""
        return any(not self._lacking.beyond(other.name) for other in self.rotation if other is not replica)

    def begin(self, replica: Replica) -> bool:
        """An attempt at `replica` begins; whether it is the trial of its breaker."""
        replica.outstanding += 1
        replica.chosen = next(self._order)
        trial = self._on_trial(replica)
        if trial:
            replica.breaker.begin_trial()
        return trial

    # --- What is learnt -----------------------------------------------------------------------------------------------

    def observe(self, replica: Replica, finding: Finding, *, broken: bool = False) -> None:
        """What a poll found; `broken`: the connection was refused or broke."""
        for change in replica.health.observe(finding):
            self._facts.emit("health.changed", replica=replica.name, **change._asdict())
        replica.draining = finding.draining or (replica.draining and finding.missed is not None)
        replica.cut = broken or (replica.cut and finding.missed is not None)
        self._settle(replica)

    def answered(self, replica: Replica, *, trial: bool) -> None:
        """An attempt went well."""
        replica.outstanding -= 1
        self._outliers.add(replica.name, True)
        self._lacking.add(replica.name, True)
        if replica.breaker.succeeded(trial=trial):
            self._forget(replica)
            self._facts.emit("breaker.closed", name=replica.name, reason="the trial went well")
            self._settle(replica, back=replica.breaker.reason)

    def failed(self, replica: Replica, *, trial: bool, broken: bool) -> None:
        """An attempt failed, by what its replica did or did not do."""
        replica.outstanding -= 1
        self._outliers.add(replica.name, False)
        if replica.breaker.failed(trial=trial):
            self._open(replica, replica.breaker.reason, "the trial failed")
        if broken:
            replica.cut = True
            self._settle(replica)
        self._judge(replica)

    def lacks(self, replica: Replica, *, trial: bool) -> None:
        """An attempt failed for want of what the replica needs: its own trouble only where others do not lack it."""
        replica.outstanding -= 1
        self._lacking.add(replica.name, False)
        if replica.breaker.failed(trial=trial, counts=False):
            self._open(replica, replica.breaker.reason, "the trial failed")
        elif self._lacking.alone(replica.name):
            self._eject(replica, "outlier", "it alone lacks what it needs")

    def mistaken(self, replica: Replica, *, trial: bool) -> None:
        """An attempt ended with what its client did wrong, or gave up: it says nothing of the replica."""
        if active(self._settings, CLIENT_ERRORS_COUNT):
            self.failed(replica, trial=trial, broken=False)
            return
        replica.outstanding -= 1
        replica.breaker.neither(trial=trial)

    def drains(self, replica: Replica, *, trial: bool) -> None:
        """An attempt was refused since the replica drains."""
        replica.outstanding -= 1
        replica.breaker.neither(trial=trial)
        self.observe(replica, Finding("ready", "draining", draining=True))

    def tick(self) -> None:
        """Let time have its effect: open breakers become half-open."""
        for replica in self.replicas:
            if not active(self._settings, NEVER_RETURNS) and replica.breaker.look():
                self._facts.emit("breaker.half_opened", name=replica.name, reason="one trial")

    # --- Ejection -----------------------------------------------------------------------------------------------------

    def _on_trial(self, replica: Replica) -> bool:
        return replica.breaker.wants_trial and replica.health.up and not replica.cut and not replica.draining

    def _judge(self, replica: Replica) -> None:
        """Eject a replica for its failed attempts, where that is to be."""
        if replica.out is not None:
            return
        outlier = self._outliers.beyond(replica.name)
        if not outlier and not replica.breaker.should_open:
            return
        if self._outliers.shared(replica.name) and not active(self._settings, EJECTS_ALL):
            return  # the cause lies elsewhere
        share = self._outliers.share(replica.name)
        if outlier:
            self._eject(replica, "outlier", f"{share:.0%} of its attempts failed")
        else:
            self._eject(replica, "breaker", "failures in a row")

    def _eject(self, replica: Replica, kind: str, why: str) -> None:
        out = sum(other.out is not None for other in self.replicas)
        if replica.out is None and (may_eject(out, len(self.replicas)) or active(self._settings, EJECTS_ALL)):
            self._open(replica, kind, why)
            self._settle(replica)

    def _open(self, replica: Replica, kind: str, why: str) -> None:
        with self._facts.path("breaker.open"):
            replica.breaker.open(kind)
            self._facts.emit("breaker.opened", name=replica.name, reason=why)

    def _settle(self, replica: Replica, *, back: str = "") -> None:
        """Take it out of rotation, or in again, as its state is now; `back`: why it comes back."""
        before, now = replica.out, replica.unfit
        if now is None and active(self._settings, NEVER_RETURNS) and before not in (None, "new"):
            return
        if now is not None and before == "new":
            return  # it has not been in yet
        replica.out = now
        errors = round(self._outliers.share(replica.name), 3)
        if before is None and now is not None:
            with self._facts.path("replica.eject"):
                self._facts.emit("replica.ejected", replica=replica.name, reason=now, errors=errors)
        elif now is None and before not in (None, "new"):
            with self._facts.path("replica.return"):
                self._forget(replica)
                self._facts.emit("replica.returned", replica=replica.name, reason=back or before, errors=errors)
        # One that drains ends what it has. A poll that it answered before it was told to leave may come in only now.
        if now == "health" and before not in (now, "draining"):
            replica.abandon()
        if (before is None) != (now is None):
            self.changed.set()

    def _forget(self, replica: Replica) -> None:
        """What failed before it was out is no reason to eject it again."""
        self._outliers.forget(replica.name)
        self._lacking.forget(replica.name)
        replica.breaker.forget()

    @property
    def state(self) -> dict[str, object]:
        """What it believes, for people and tests."""
        return {
            replica.name: {
                "out": replica.out,
                "levels": replica.health.levels,
                "breaker": replica.breaker.state,
                "trial": replica.breaker.state == HALF_OPEN,
                "outstanding": replica.outstanding,
                "errors": self._outliers.share(replica.name),
            }
            for replica in self.replicas
        }
