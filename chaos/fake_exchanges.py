"""The HTTP links of `chaos.testing.FakeTarget`: one request passes as soon as somebody waits for it."""

from __future__ import annotations

from collections.abc import Callable

import anyio.lowlevel

from chaos.api import JSON
from chaos.exchanges import ExchangeRule


class FakeExchanges:
    """Implements Exchanges. On a numb target nobody requests anything."""

    numb = False

    def __init__(self) -> None:
        super().__init__()
        self.ruled: list[FakeRuled] = []

    async def rule(self, rule: ExchangeRule) -> FakeRuled:
        await anyio.lowlevel.checkpoint()
        self.ruled.append(ruled := FakeRuled(self, rule))
        return ruled

    def served(self) -> set[str]:
        """The links on which requests are disturbed."""
        return {f"{ruled.rule.action} {ruled.rule.path} of {ruled.rule.link}" for ruled in self.ruled}


class FakeRuled:
    """Implements Ruled."""

    def __init__(self, target: FakeExchanges, rule: ExchangeRule) -> None:
        self.target, self.rule = target, rule

    async def first(self, before: Callable[[], None]) -> JSON:
        await anyio.lowlevel.checkpoint()
        if self.target.numb:
            await anyio.sleep_forever()
        before()
        return {"mechanism": "fake", "link": self.rule.link, "method": self.rule.methods[0], "path": self.rule.path}

    async def lift(self) -> JSON:
        await anyio.lowlevel.checkpoint()
        if self in self.target.ruled:
            self.target.ruled.remove(self)
        return {"hits": 1, "requests": []}
