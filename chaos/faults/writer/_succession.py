"""How a fault knows that a writer has a successor."""

from __future__ import annotations

from collections.abc import Collection

from chaos.api import JSON
from chaos.errors import NotLanded
from chaos.talk import Heard

GRANTS = ("lease.granted", "epoch.issued")  # what a store or a coordinator says of it: docs/events.md


async def successor(heard: Heard, but: Collection[str], within: float, since: float = 0.0) -> JSON:
    """Wait until an epoch goes to somebody who is not among `but`, and say who; NotLanded when nobody gets it."""
    event = await heard.next(lambda e: e.get("holder") not in but, within, since)
    if event is None:
        raise NotLanded(f"nobody else was granted a lease or an epoch within {within:g} s")
    return {"event": event.seq, "kind": event.kind, "holder": event.get("holder"), "epoch": event.get("epoch")}
