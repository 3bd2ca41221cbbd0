"""HTTP requests and their answers on a link, as the faults of services speak of them."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Literal, Protocol, runtime_checkable

import msgspec

from chaos.api import JSON


class ExchangeRule(msgspec.Struct, frozen=True, kw_only=True):
    """Which requests are hit, and what becomes of them: of those that match, the ones from `first` to `last`.

    `refuse`: answered with `status` and `body`, and never passed on. `delay`: passed on after so many seconds. `lose`:
    passed on, and when it succeeded the connection is reset in place of the answer.
    """

    link: str
    methods: tuple[str, ...]
    path: str  # a glob in which `*` stands for any text, with or without slashes
    action: Literal["refuse", "delay", "lose"]
    status: int = 503
    body: str = ""
    delay: float = 0.0
    first: int = 1
    last: int | None = None

    def matches(self, method: str, path: str) -> bool:
        """Whether it speaks of such a request; a query does not count."""
        return method in self.methods and fnmatchcase(path.partition("?")[0], self.path)

    def due(self, n: int) -> bool:
        """Whether the nth of those is hit."""
        return n >= self.first and (self.last is None or n <= self.last)


class Ruled(Protocol):
    """A rule that stands."""

    async def first(self, before: Callable[[], None]) -> JSON:
        """Wait for the first request that is hit: `before` is called, then it is; the proof."""

    async def lift(self) -> JSON:
        """Let every request pass again, also one that is delayed now; what was hit in all. May be called twice."""


@runtime_checkable
class Exchanges(Protocol):
    """HTTP requests on a declared link can be refused, delayed, or lose their answers."""

    async def rule(self, rule: ExchangeRule) -> Ruled:
        """From now on, hit what the rule says."""
