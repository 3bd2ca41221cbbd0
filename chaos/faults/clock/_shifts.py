"""What the faults of clocks have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import Meta

from chaos.api import JSON, Landing, Member
from chaos.capabilities import Clocks
from chaos.errors import HealFailed, NotLanded

# A duration that is more than nothing: a shift by nothing would land without doing anything.
Shift = Annotated[float, Meta(gt=0, extra={"unit": "duration"}, description="seconds, such as 250ms, 8s, 2m, 1h")]
Speed = Annotated[float, Meta(gt=0, extra={"unit": "ratio"}, description="a share, such as 1% or 0.01")]
Asked = Literal["required", "optional"]
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


def told(landing: Landing, required: bool) -> None:
    """Into the heal's evidence whether anybody was told another time; where that is asked for, nothing is proved else.

    Of one that has gone meanwhile nobody knows.
    """
    counts = [one.get("asked") for one in landing.healed["members"]]
    known = sum(count for count in counts if count is not None)
    if not known and None in counts:
        return
    if required:
        landing.met = known
    if not known:
        landing.healed["note"] = "nobody asked for the time meanwhile"
