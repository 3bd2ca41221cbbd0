"""Known requests and their known answers, computed from the seed and not from what was loaded."""

from __future__ import annotations

import asyncio
from typing import Final

from targets.serving.models import features
from targets.serving.models.golden import golden_rank, golden_tokens, same_scores
from targets.serving.models.shapes import SYSTEM
from targets.serving.replica.engine import Broken, Engine
from targets.serving.replica.loading import Loaded
from targets.serving.settings import FEATURES, ITEMS, TIERS, USERS, Settings

_USER: Final = USERS - 1
_ITEMS: Final = tuple(range(0, ITEMS, ITEMS // 16))
_TOKENS: Final = 3


class Known:
    """Asks the real engine what everybody knows."""

    def __init__(self, settings: Settings, engine: Engine) -> None:
        self._settings, self._engine = settings, engine
        self._alone = asyncio.Lock()  # the known prompt has one block for all
        self._turn = 0

    async def wrong(self, loaded: Loaded, *, all_models: bool = False) -> str | None:
        """What is wrong with the answers, if anything: of the primary model, the generator, and one rung in turn."""
        self._turn += 1
        tiers = TIERS if all_models else {"primary": None, TIERS[self._turn % len(TIERS)]: None}
        try:
            for tier in tiers:
                if not await self._ranks(loaded, tier):
                    return f"{tier} gives a wrong answer"
            if not await self._generates(loaded):
                return "the generator gives a wrong answer"
        except Broken as error:
            return str(error)
        return None

    async def _ranks(self, loaded: Loaded, tier: str) -> bool:
        live = dict.fromkeys(FEATURES, features.LIVE)
        meant = features.meant(self._settings.seed, _USER, live)
        scores = await self._engine.rank(loaded, tier, _ITEMS, meant)
        return same_scores(scores, golden_rank(self._settings, loaded.generation, tier, _USER, _ITEMS, live))

    async def _generates(self, loaded: Loaded) -> bool:
        wanted = _first_tokens(self._settings, loaded.generation)
        async with self._alone:
            block, said = self._engine.known_block(), []
            fed = [*SYSTEM[:8]]
            position = 0
            for _ in range(_TOKENS):
                said.append(await self._engine.feed(loaded, block, position, fed))
                position += len(fed)
                fed = [said[-1]]
        return said == wanted


def _first_tokens(settings: Settings, generation: int) -> list[int]:
    return golden_tokens(settings, generation, [SYSTEM[:8]], _TOKENS, system=False)
