"""Power that comes back, with proof."""

from __future__ import annotations

from collections.abc import Sequence

import anyio

from chaos.api import JSON
from chaos.errors import HealFailed, NotLanded
from chaos.storage import Power


async def restore(target: Power, nodes: Sequence[str]) -> JSON:
    """Power for these nodes again, whatever goes on around."""
    started: JSON = {}
    with anyio.CancelScope(shield=True):
        try:
            started |= await target.power_on(nodes)
        except NotLanded as error:
            raise HealFailed(
                f"the power of {', '.join(nodes)} is back, and not everybody: {error}",
                undo="end the target: its members end with it",
            ) from error
    return started
