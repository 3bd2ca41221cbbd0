"""A write that arrives a second time, when its token is old."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Annotated, Protocol, runtime_checkable

from msgspec import Meta

from chaos.api import JSON, Duration, Fault, Landing, Selection, Selector
from chaos.faults.writer._succession import GRANTS, successor
from chaos.talk import Hears, Recordings


@runtime_checkable
class Replayable(Recordings, Hears, Protocol):
    """Requests on a declared link can be recorded and sent again, and members say who holds which epoch."""


class Replay(Fault[Replayable], frozen=True, kw_only=True):
    """Record the next request on `link` with `match` in its bytes, and send it again once a newer epoch was issued.

    The recording begins with the trigger; the bytes go out as they were, token and all, on a new connection from the
    same node.

    Proof: size and SHA-256 of what was recorded, the event of the newer epoch, and the answer to the bytes sent.

    Heal: none, nothing stands.
    """

    fidelity = (
        "a duplicate that a proxy, a retry or a queue delivers late, or a writer that woke up on a machine nobody can "
        "reach. For protocols of request and answer in plain bytes: what is encrypted, or bound to its connection, is "
        "refused by that already."
    )
    instant = True

    link: Annotated[str, Meta(description="a link that the target declares", examples=["store"])]
    match: Annotated[str, Meta(description="text in the request", examples=["generation.commit"])]
    nodes: tuple[str, ...] = ()  # of the writers; all when none is named
    within: Duration = 30.0  # for the request, and again for the newer epoch

    def sections(self) -> tuple[str, ...]:
        return ("links",)

    def selectors(self) -> tuple[Selector, ...]:
        return ()

    @asynccontextmanager
    async def inject(self, target: Replayable, *hit: Selection) -> AsyncIterator[Landing]:
        async with target.record(self.link, self.nodes) as tape:
            with target.listen(*GRANTS) as heard:

                async def again(before: Callable[[], None]) -> JSON:
                    request = await tape.find(self.match.encode(), self.within)
                    newer = await successor(heard, (), self.within, since=request.t)
                    before()
                    answer = await tape.send_again(request)
                    recorded = {
                        "node": request.node, "to": list(request.to), "bytes": len(request.data),
                        "sha256": hashlib.sha256(request.data).hexdigest(),
                    }  # fmt: skip
                    return {"recorded": recorded, "newer": newer, "sent": answer}

                yield Landing({}, hit=again)
