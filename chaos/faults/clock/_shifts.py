"""What the faults of clocks have in common."""

from __future__ import annotations

from collections.abc import Sequence

from chaos.api import JSON, Member
from chaos.capabilities import Clocks
from chaos.errors import HealFailed, NotLanded

CLOSE = 0.5  # seconds by which a measured shift may differ from what was asked for
MECHANISM = "the clock functions in each member's own memory"
FIDELITY = (
    "Only the wall clock moves: monotonic clocks are as they were, and so are the kernel's own times, such as those of "
    "files and of waits until a given time of day. A program that is started anew has the true time."
)


async def shift(target: Clocks, members: Sequence[Member], seconds: float, shifted: list[Member]) -> list[JSON]:
    """Shift each and measure it; those that were, are added to `shifted` at once."""
    said = []
    for member in members:
        before = target.clock_ahead(member)
        now = await target.shift_clock(member, seconds)
        if member not in shifted:
            shifted.append(member)
        measured = target.clock_ahead(member)
        if abs(measured - seconds) > CLOSE:
            raise NotLanded(f"the clock of {member.name} is {measured:g} s ahead and not {seconds:g} s")
        said.append({**now, "before": before, "ahead": measured})
    return said


async def mend(target: Clocks, members: Sequence[Member]) -> JSON:
    """Every clock true again, whatever the others do; one HealFailed for all."""
    said, failures = [], []
    for member in members:
        try:
            said.append(await target.true_clock(member))
        except HealFailed as error:
            failures.append(error)
    if failures:
        raise HealFailed("; ".join(map(str, failures)), "; ".join(error.undo for error in failures))
    return {"members": said}


def direction(ahead: float, behind: float) -> float:
    """Seconds ahead; exactly one of both is given."""
    if (ahead > 0) == (behind > 0):
        raise ValueError("give either `ahead` or `behind`")
    return ahead - behind
