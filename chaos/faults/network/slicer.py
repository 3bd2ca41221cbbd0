"""Streams that come in small pieces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta

from chaos.api import Duration, Size
from chaos.faults.network._toxics import StreamFault


class Slicer(StreamFault, frozen=True, kw_only=True):
    """Cut what is sent over a link into pieces of `size` ± `variation` bytes, with a `pause` after each.

    Proof: what the harness sends over a connection of its own at once comes in pieces; the proxy tells of the hit.
    It has landed as soon as a connection of the members was sliced.

    Heal: what is held is let go at once.
    """

    fidelity = (
        "small segments of a bad path: a reader gets less than a message at a time, which shows who takes one read for "
        "one message. A receiver that is slower than the pauses sees the pieces put together again."
    )

    size: Annotated[int, Meta(ge=1, extra={"unit": "size"}, description="bytes, such as 64KiB or 10MB")]
    variation: Size = 0
    pause: Duration = 0.0

    def toxic(self) -> tuple[str, Mapping[str, int]]:
        pause = round(self.pause * 1_000_000)
        return "slicer", {"average_size": self.size, "size_variation": self.variation, "delay": pause}
