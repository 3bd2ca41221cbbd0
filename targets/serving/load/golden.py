"""What the right answer is: the golden model as the load asks for it, and how far an answer is from it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Protocol

from targets.serving.settings import Settings

LIVE = {"critical": "live", "important": "live", "useful": "live", "optional": "live"}
TOLERANCE = 1e-3  # of a score, relative and absolute: batches and machines differ by rounding only
BEST = 5  # items that a client looks at


class Golden(Protocol):
    """Computes known answers."""

    def scores(
        self, generation: int, tier: str, user: int, items: Sequence[int], features: Mapping[str, str]
    ) -> Sequence[float]:
        """Of a ranking."""

    def tokens(self, generation: int, prompts: Sequence[Sequence[int]], tokens: int) -> Sequence[int]:
        """Of the last of these turns of a session, each of which was answered with so many tokens."""


class Model:
    """The golden model of the stack."""

    def __init__(self, settings: Settings) -> None:
        from targets.serving.models import golden  # heavy

        self._settings = settings
        self._golden = golden

    def scores(
        self, generation: int, tier: str, user: int, items: Sequence[int], features: Mapping[str, str]
    ) -> Sequence[float]:
        found: Sequence[float] = self._golden.golden_rank(self._settings, generation, tier, user, items, features)
        return found

    def tokens(self, generation: int, prompts: Sequence[Sequence[int]], tokens: int) -> Sequence[int]:
        found: Sequence[int] = self._golden.golden_tokens(self._settings, generation, prompts, tokens)
        return found


def same(scores: object, golden: Sequence[float]) -> bool:
    """Whether these are the golden scores but for rounding; a NaN, or a list of another length, is not."""
    if not isinstance(scores, list) or len(scores) != len(golden):
        return False
    return all(
        isinstance(score, int | float) and math.isclose(score, right, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
        for score, right in zip(scores, golden, strict=True)
    )


def gap(scores: Sequence[float], primary: Sequence[float]) -> float:
    """The share of the value of the best items, as the primary would have it, that the first of this answer lack.

    Value counts from the worst item of the request: 0 for the same choice, 1 for the worst possible one.
    """
    least = min(primary)
    best = sum(sorted(primary, reverse=True)[:BEST]) - BEST * least
    first = sorted(range(len(scores)), key=lambda i: scores[i], reverse=True)[:BEST]
    got = sum(primary[i] - least for i in first)
    return round(1 - got / best, 4) if best > 0 else 0.0
