"""What the faults of object storage have in common: which requests they hit, and the way from armed to healed."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any, Literal

import anyio
import msgspec
from msgspec import Meta

from chaos.api import Fault, Landing, Selection, Selector
from chaos.errors import HealFailed
from chaos.exchanges import ExchangeRule, Exchanges

LIFTS_WITHIN = 10.0
Method = Literal["GET", "PUT", "POST", "HEAD", "DELETE"]
Count = Annotated[int, Meta(ge=1)]


class RequestFault(Fault[Exchanges], frozen=True, kw_only=True):
    """Hits the requests over `link` whose key matches: of those the `nth`, or the ones `from` … `to`.

    It is armed, and lands with the first request that it hits; one that hits none before the run ends has not landed.
    """

    link: Annotated[str, Meta(description="a link that the target declares, spoken in HTTP", examples=["objects"])] = (
        "objects"
    )
    key: Annotated[str, Meta(description="a glob for bucket and key; `*` also stands for slashes")] = "*"
    methods: Annotated[tuple[Method, ...], Meta(min_length=1)] = ("PUT",)
    nth: Count | None = None
    first: Count = msgspec.field(default=1, name="from")
    last: Count | None = msgspec.field(default=None, name="to")

    def __post_init__(self) -> None:
        if self.nth is not None and (self.first, self.last) != (1, None):
            raise ValueError("`nth` means one request; `from` and `to` mean several")
        if self.last is not None and self.last < self.first:
            raise ValueError(f"from {self.first} to {self.last} is nothing")

    def sections(self) -> tuple[str, ...]:
        return ("links",)

    def selectors(self) -> tuple[Selector, ...]:
        return ()

    @abstractmethod
    def rule(self) -> ExchangeRule:
        """What becomes of which requests."""

    def hitting(self, **action: Any) -> ExchangeRule:
        """A rule for the requests that the settings count."""
        first, last = (self.nth, self.nth) if self.nth is not None else (self.first, self.last)
        path = self.key if self.key.startswith(("/", "*")) else f"/{self.key}"
        return ExchangeRule(link=self.link, methods=self.methods, path=path, first=first, last=last, **action)

    @asynccontextmanager
    async def inject(self, target: Exchanges, *hit: Selection) -> AsyncIterator[Landing]:
        ruled = await target.rule(self.rule())
        landing = Landing({}, hit=ruled.first)
        try:
            yield landing
        finally:
            with anyio.move_on_after(LIFTS_WITHIN, shield=True) as limit:
                landing.healed = await ruled.lift()
            if limit.cancelled_caught:
                raise HealFailed("the proxy does not answer", "end the run: the proxy ends with it")
