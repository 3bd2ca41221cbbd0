"""Signals to several members at once, and what each of them did."""

from __future__ import annotations

from collections.abc import Sequence
from signal import Signals as Signal

from chaos.api import JSON, Member, Selection, Signals
from chaos.errors import NotLanded

LANDS_WITHIN = 5.0  # seconds that the kernel may take over a signal; some milliseconds on a busy machine
GONE = "XZ"


def members_of(selection: Selection) -> tuple[Member, ...]:
    """The selected members; a fault that hits nobody is none."""
    if not selection.members:
        raise NotLanded("no member is selected")
    return selection.members


async def send(target: Signals, members: Sequence[Member], number: Signal) -> tuple[Member, ...]:
    """Signal all of them, without a wait in between; those that were still there. NotLanded if nobody was."""
    reached = []
    for member in members:
        try:
            await target.signal(member, number)
        except NotLanded:
            continue  # the first ones may take others with them before their turn comes
        reached.append(member)
    if not reached:
        raise NotLanded(f"{', '.join(m.name for m in members)}: gone before {number.name} could be sent")
    return tuple(reached)


async def prove(target: Signals, members: Sequence[Member], states: str) -> list[JSON]:
    """Wait until each member is in one of the states; NotLanded if one is not in time."""
    return [
        {"member": m.name, "pid": m.pid, "state": await target.wait_state(m, states, LANDS_WITHIN)} for m in members
    ]
