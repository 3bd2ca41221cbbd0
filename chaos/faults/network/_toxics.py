"""What the faults of streams have in common: the settings, the proof, the heal, and that somebody was hit."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Annotated, Literal

import anyio
from msgspec import Meta

from chaos.api import JSON, Duration, Fault, Landing, Selection, Selector
from chaos.errors import HealFailed, NotLanded
from chaos.ways import Streams, Toxic

Link = Annotated[str, Meta(description="as the target file names it under `links`", examples=["store"])]


def milliseconds(seconds: float) -> int:
    """As Toxiproxy counts; never rounded down to nothing."""
    return math.ceil(seconds * 1000 - 1e-9)


class StreamFault(Fault[Streams], frozen=True, kw_only=True):
    """A toxic on the connections that members make over a link, for as long as the fault stands."""

    link: Link
    members: Selector
    stream: Annotated[
        Literal["upstream", "downstream", "both"],
        Meta(description="upstream: what the selected members send; downstream: what they are answered"),
    ] = "both"
    toxicity: Annotated[
        float, Meta(gt=0, le=1, extra={"unit": "ratio"}, description="the share of connections that are hit")
    ] = 1.0
    ttl: Annotated[
        Duration, Meta(description="it goes by itself after that time, should the harness be gone; 0: never")
    ] = 600.0

    def sections(self) -> tuple[str, ...]:
        return ("links",)

    def selectors(self) -> tuple[Selector, ...]:
        return (self.members,)

    @abstractmethod
    def toxic(self) -> tuple[str, Mapping[str, int]]:
        """The kind of toxic, and its attributes."""

    def inject(self, target: Streams, *hit: Selection) -> AbstractAsyncContextManager[Landing]:
        kind, attributes = self.toxic()
        toxic = Toxic(
            link=self.link,
            nodes=hit[0].nodes,
            kind=kind,
            streams=("upstream", "downstream") if self.stream == "both" else (self.stream,),
            attributes=attributes,
            toxicity=self.toxicity,
            ttl=self.ttl,
        )
        return standing(target, toxic)


@asynccontextmanager
async def standing(target: Streams, toxic: Toxic) -> AsyncIterator[Landing]:
    """The toxic stands for the length of the block. It has landed when a connection of the target met it."""
    if not toxic.nodes:
        raise NotLanded("no node selected, so nobody's connections")
    measured = await target.poison(toxic)

    async def met(_: Callable[[], None]) -> JSON:  # it acts from before it was measured on, so it began when told
        return {**measured, "met": await target.wait_met(toxic)}

    landing = Landing({}, hit=met)
    try:
        yield landing
    finally:
        with anyio.CancelScope(shield=True):
            try:
                landing.healed = await target.cure(toxic)
            except NotLanded as error:
                raise HealFailed(
                    f"link {toxic.link} is not as it was: {error}",
                    undo=f"end the target; on a Toxiproxy that runs by itself, remove the toxics of link {toxic.link}",
                ) from error
