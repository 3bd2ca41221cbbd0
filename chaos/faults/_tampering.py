"""What the faults share that act inside a member, at the sites where it offers its values."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Annotated

import anyio
from msgspec import Meta

from chaos.api import JSON, Hooks, Landing, Selection
from chaos.errors import HealFailed, NotLanded

Fields = Mapping[str, int | str]
Where = Annotated[Fields, Meta(description="fields of the site that must equal these, such as {step: 14}")]
Since = Annotated[Mapping[str, int], Meta(description="fields of the site that must have got that far, {step: 14}")]


def change(do: str, *, where: Fields, since: Mapping[str, int], times: int | None = None, **more: object) -> JSON:
    """What a hook does, as `chaos.inside` takes it; what is None is left out."""
    told = {"do": do, "where": dict(where), "since": dict(since), "times": times, **more}
    return {key: value for key, value in told.items() if value is not None and value != {}}


@asynccontextmanager
async def tampering(
    target: Hooks, selection: Selection, site: str, deed: JSON, within: float
) -> AsyncIterator[Landing]:
    """Arm `deed` on every selected member; landed once each of them was hit, which may take `within` seconds. Disarmed
    at the end, whatever happens."""
    if not selection.members:
        raise NotLanded("no member is selected")
    numbers: list[int] = []

    async def hit(before: Callable[[], None]) -> JSON:
        end = anyio.current_time() + within
        hits = [await target.wait_hit(number, max(end - anyio.current_time(), 0.0)) for number in numbers]
        return {"mechanism": "hook", "site": site, "change": deed, "hits": hits}

    landing = Landing({}, hit=hit)
    try:
        for member in selection.members:
            numbers.append(await target.arm(member, site, deed))
        yield landing
    finally:
        with anyio.CancelScope(shield=True):
            await _disarm(target, numbers, landing)


async def _disarm(target: Hooks, numbers: list[int], landing: Landing) -> None:
    said: list[JSON] = []
    failed: list[HealFailed] = []
    for number in numbers:
        try:
            said.append(await target.disarm(number))
        except HealFailed as error:
            failed.append(error)
    landing.healed = {"disarmed": said}
    if failed:
        raise HealFailed("; ".join(map(str, failed)), undo="; ".join(error.undo for error in failed))
