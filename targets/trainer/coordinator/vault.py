"""The leader's view of the store: what to settle, what to restore, how a generation is decided and committed."""

from __future__ import annotations

from typing import Any, NamedTuple

import anyio

from chaos.inside import recovery_path
from targets.trainer import defects
from targets.trainer.coordinator.failure import Failure, detected
from targets.trainer.coordinator.lease import Deposed, Lease
from targets.trainer.settings import Settings
from targets.trainer.wire import Budget, Frame, Refused, Unreachable
from targets.trainer.wire_async import AsyncCaller


class Chosen(NamedTuple):
    """What to restore; generation 0: nothing, start afresh."""

    generation: int
    step: int
    loss: float | None  # of the canary, when it was saved
    passed_over: int = 0  # generations that were committed later, and cannot be restored or must not be


FRESH = Chosen(0, 0, None)


class Vault:
    """Calls of the store under the lease's epoch. Deposed when the store says that somebody else leads, or says nothing
    for so long that somebody else may; Failure when its disk is in trouble.
    """

    def __init__(self, caller: AsyncCaller, lease: Lease, settings: Settings) -> None:
        self._caller, self._lease, self._settings = caller, lease, settings

    def budget(self) -> Budget:
        """For one call, or for a round of them with all that workers do for it."""
        settings = self._settings
        return Budget.of(settings, settings.commit_deadline, settings.retries, clock=anyio.current_time)

    async def ask(self, op: str, *, budget: Budget | None = None, **fields: Any) -> Frame:
        """Any call; idempotent, so it is repeated until it is answered, within the budget (its own without one)."""
        token = self._lease.epoch
        try:
            return await self._caller.call(op, token=token, budget=budget or self.budget(), **fields)
        except Refused as refused:
            if refused.error == "stale-epoch":
                raise Deposed(str(refused)) from refused
            if refused.error == "storage":
                raise detected(Failure("store", "transient", str(refused.fields["reason"]))) from refused
            raise
        except Unreachable as error:
            raise Deposed(str(error)) from error

    async def settle(self) -> None:
        """Finish what an earlier incarnation left: what it had decided is committed, all else is given up."""
        for known in (await self.ask("generation.list"))["generations"]:
            decided = known["state"] == "decided" and not known["damaged"]
            if decided and not defects.active(self._settings, defects.UNMARKED_IS_REMOVED):
                await self._settle_forward(known["generation"])
            elif decided or known["state"] == "open":
                with recovery_path("checkpoint.settle_abort"):
                    await self.abort(known["generation"], "not decided")

    async def _settle_forward(self, generation: int) -> None:
        try:
            with recovery_path("checkpoint.settle_forward"):
                await self.ask("generation.commit", generation=generation)
        except Refused as refused:
            await self.damaged(generation, "decision", refused.error)

    async def abort(self, generation: int, reason: str) -> None:
        """Give a generation up, unless it was decided."""
        try:
            await self.ask("generation.abort", generation=generation, reason=reason)
        except Refused as refused:
            if refused.error != "decided":
                raise

    async def next_generation(self) -> int:
        """A number that was never used."""
        return int((await self.ask("generation.list"))["last"]) + 1

    async def choose(self, excluded: set[int]) -> Chosen:
        """The newest committed generation that is neither damaged nor `excluded`."""
        answer = await self.ask("generation.list")
        listed = answer["generations"]
        if defects.active(self._settings, defects.TRUST_LATEST):
            listed = [g for g in listed if str(g["generation"]) == answer["latest"]]
        if sum(g["damaged"] for g in listed) > 1 and defects.active(self._settings, defects.ROLLBACK_ONCE):
            return FRESH
        committed = [g["generation"] for g in listed if g["state"] == "committed"]
        good = [g for g in listed if not g["damaged"] and g["generation"] not in excluded]
        if not defects.active(self._settings, defects.RESTORE_NEWEST_DIRECTORY):
            good = [g for g in good if g["state"] == "committed"]
        if defects.active(self._settings, defects.RESTORE_SECOND_NEWEST) and len(good) > 1:
            del good[-1]
        while good:
            generation = good.pop()["generation"]
            try:
                manifest = (await self.ask("manifest.get", generation=generation))["manifest"]
            except Refused as refused:
                if defects.active(self._settings, defects.MANIFEST_DAMAGE_STARTS_AFRESH):
                    return FRESH
                await self.damaged(generation, "manifest", refused.error)
            else:
                passed_over = sum(other > generation for other in committed)
                return Chosen(manifest["generation"], manifest["step"], manifest.get("loss"), passed_over)
        return FRESH

    async def damaged(self, generation: int, name: str, reason: str) -> None:
        """Never offer that generation again."""
        await self.ask("generation.damaged", generation=generation, name=name, reason=reason)
