"""Power that goes while data is on its way to the disk."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import PurePosixPath
from typing import Annotated, Literal

import anyio
from msgspec import Meta

from chaos.api import Fault, Landing, Selection, Selector
from chaos.errors import HealFailed, NotLanded
from chaos.storage import PoweredDisks


class PowerCut(Fault[PoweredDisks], frozen=True, kw_only=True):
    """Cut the power of nodes and of the disk that holds their data: what was not synced is lost, names of files too.

    Every process on the nodes is killed. `disk` is the folder below the data that lies on their disk; nobody else may
    use it. By `fsshutdown` (root) it is an ext4 file system that is really shut down and mounted again; by `replay`
    (anyone) what the programs had synced is put back and nothing else, which is harsher than most file systems are: the
    bytes of a file as of its last fsync, the names in a folder as of its last one. `best` takes the first that the
    machine can do. `require-loss` asks that something was lost.

    Proof: the processes have ended; the file system refuses a write (EIO), and a file that was never synced is gone;
    what was lost and what was kept, with digests.

    Heal: the power returns; what the harness had started on the nodes is started again and finds what the disk kept.
    """

    fidelity = (
        "a machine that loses power, or a kernel that crashes, with a drive that keeps what it said it had written. "
        "Does not show: torn sectors, a drive that lies about a flush, a network that notices the dead machine late."
    )

    members: Selector
    disk: Annotated[str, Meta(description="a folder below the target's data", examples=["store"])] = "."
    require_loss: bool = False
    mechanism: Literal["best", "fsshutdown", "replay"] = "best"

    def __post_init__(self) -> None:
        path = PurePosixPath(self.disk)
        if not self.disk or path.is_absolute() or ".." in path.parts:
            raise ValueError(f"`disk` is a folder below the target's data, not {self.disk!r}")

    def selectors(self) -> tuple[Selector, ...]:
        return (self.members,)

    @asynccontextmanager
    async def inject(self, target: PoweredDisks, *hit: Selection) -> AsyncIterator[Landing]:
        nodes = hit[0].nodes
        if not nodes:
            raise NotLanded("no node is selected: power is cut where there is a node")
        landing = Landing({})
        try:
            ended = await target.power_off(nodes)
            loss = await target.lose_unsynced(self.disk)
            if loss.get("nothing_there"):
                raise NotLanded(f"the power went, and nothing lay on {self.disk}: is it the folder that is written to?")
            if self.require_loss and not loss["lost"]:
                raise NotLanded(f"the power went, and nothing on {self.disk} was lost: all of it had been synced")
            landing.evidence = {**ended, **loss}
            yield landing
        finally:
            with anyio.CancelScope(shield=True):
                await restore_power(target, nodes, landing)


async def restore_power(target: PoweredDisks, nodes: tuple[str, ...], landing: Landing) -> None:
    try:
        landing.healed = await target.power_on(nodes)
    except NotLanded as error:
        raise HealFailed(f"the power is back, and not everybody: {error}", undo="end the target") from error
