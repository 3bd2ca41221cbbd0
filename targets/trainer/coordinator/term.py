"""A coordinator's life: stand by, lead, step down, stand by again."""

from __future__ import annotations

import os
from contextlib import suppress

import anyio
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus

from chaos.inside import emit, recovery_path
from targets.trainer.coordinator.crew import Crew
from targets.trainer.coordinator.failure import Change, Failure, detected
from targets.trainer.coordinator.formation import Formation
from targets.trainer.coordinator.leader import FAREWELL, Leader
from targets.trainer.coordinator.lease import Deposed, Finished, Lease
from targets.trainer.coordinator.members import Door
from targets.trainer.coordinator.vault import Vault
from targets.trainer.settings import Address, Place, Settings
from targets.trainer.wire_async import AsyncCaller

NO_STORE = os.EX_TEMPFAIL  # not the job's code: whoever is cut off from the store cannot know what became of the job
AUTOPSY = 0.3  # for the last leader to answer a connection


class Coordinator:
    """Leads whenever the store grants it the lease, until the job has ended."""

    def __init__(self, place: Place, settings: Settings, *, store: Address, door: Door, peer: Address) -> None:
        self._place, self._settings, self._door, self._peer = place, settings, door, peer
        self._store = AsyncCaller(store, place.member, try_timeout=settings.try_timeout)

    async def run(self, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> int:
        """The exit code: the job's, or NO_STORE after `give_up` without an answer of the store.

        Started once members may connect and the lease was asked for.
        """
        async with anyio.create_task_group() as tasks:
            await tasks.start(self._door.listen)
            code = await self._terms(task_status)
            tasks.cancel_scope.cancel()
        return code

    async def _terms(self, task_status: TaskStatus[None]) -> int:
        try:
            lease = Lease(self._store, self._place.member, self._settings)
            pause = await lease.try_acquire()
            emit("coordinator.ready", address=list(self._door.address), leads=lease.valid)
            task_status.started()
            while True:
                while pause:
                    if lease.unanswered > self._settings.give_up:
                        return NO_STORE
                    await anyio.sleep(pause)
                    pause = await lease.try_acquire()
                code = await self._term(lease)
                if code is not None:
                    return code
                lease = Lease(self._store, self._place.member, self._settings)
                pause = await lease.try_acquire()
        except Finished as finished:
            await anyio.sleep(2 * FAREWELL)  # whoever led to the end, ends first
            return 0 if finished.outcome == "completed" else 1

    async def _term(self, lease: Lease) -> int | None:
        """Lead while the lease lasts; the exit code when the job has ended, None once stepped down."""
        crew, code = Crew(self._settings, lease), None
        self._door.members = crew.members
        async with anyio.create_task_group() as tasks:

            async def keep() -> None:
                await lease.keep()
                # Lost: no more members, no more orders. What is under way at the store goes on behind its shield.
                self._door.members = None
                await crew.members.dismiss()
                tasks.cancel_scope.cancel()

            tasks.start_soon(keep)
            with suppress(Deposed):
                code = await self._lead(crew, lease)
            tasks.cancel_scope.cancel()
        self._door.members = None
        if code is None:
            with recovery_path("coordinator.step_down"):
                await crew.members.dismiss()
        return code

    async def _lead(self, crew: Crew, lease: Lease) -> int:
        vault = Vault(self._store, lease, self._settings)
        leader = Leader(crew, vault, Formation(crew, vault, self._place))
        if lease.previous is None:
            return await leader.lead(Change("start", "first start"))
        own = lease.previous == self._place.member
        kind, reason = ("transient", "won again") if own else await _autopsy(self._peer)
        detected(Failure(lease.previous, kind, f"its lease ran out; {reason}"))
        return await leader.lead(Change("failover", f"{lease.previous} lost the lease"))


async def _autopsy(peer: Address) -> tuple[str, str]:
    """What became of the last leader, by how a connection to it fares."""
    try:
        with anyio.fail_after(AUTOPSY):
            stream = await anyio.connect_tcp(*peer)
    except TimeoutError:
        return "partition", "no way to it"
    except OSError as error:
        refused = isinstance(error.__cause__ or error, ConnectionRefusedError)
        return ("fail-stop", "nobody listens") if refused else ("partition", "no way to it")
    await anyio.aclose_forcefully(stream)
    return "hang", "it listens, but does not renew"
