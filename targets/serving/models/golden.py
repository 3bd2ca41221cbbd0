"""The known answer to any request, computed from the seed alone: nothing here reads what was published.

`golden_rank` is NumPy and takes tens of microseconds; `golden_tokens` runs the generator itself and remembers sessions,
so that a further turn costs its own tokens only. One thread at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from targets.serving.models import features as user_features
from targets.serving.models.shapes import BLOCK, CONTEXT, DEEP, SYSTEM, WIDTH
from targets.serving.models.weights import Array, arrays, popularity
from targets.serving.settings import FEATURES, Settings

if TYPE_CHECKING:
    from torch import Tensor

TOLERANCE = 1e-3  # of a score: NumPy and torch add in different orders; a wrong weight is further away


def golden_rank(
    settings: Settings,
    generation: int,
    tier: str,
    user: int,
    items: Sequence[int],
    features: Mapping[str, str],
) -> list[float]:
    """Scores; `features` is what the answer says of its features (`{"critical": "live", …}`)."""
    if tier == "static":
        known = _popularity(settings.seed, generation)
        return [known[item] for item in items]
    weights = arrays(settings.seed, generation, tier)
    meant = user_features.meant(settings.seed, user, features)
    chosen = weights["items"][np.asarray(items)]
    scores = weights["bias"][np.asarray(items)] + chosen @ _user(tier, weights, meant)
    if tier == "primary":
        scores = scores + np.float32(DEEP) * _deep(weights, chosen, meant)
    return [float(score) for score in scores]


def same_scores(given: Sequence[float | None], golden: Sequence[float]) -> bool:
    """Whether an answer is right; a NaN never is."""
    # A NaN travels as null.
    return len(given) == len(golden) and all(
        a is not None and abs(a - b) <= TOLERANCE for a, b in zip(given, golden, strict=True)
    )


def golden_tokens(
    settings: Settings,
    generation: int,
    prompts: Sequence[Sequence[int]],
    tokens: int | None = None,
    *,
    system: bool = True,
) -> list[int]:
    """The tokens of the last of these turns; each turn answers with `tokens` (default: that of the settings).

    A session begins with the system prompt, unless `system` says that this is none.
    """
    turns = tuple(tuple(prompt) for prompt in prompts)
    wanted = settings.tokens if tokens is None else tokens
    return list(_turn(settings.seed, generation, turns, wanted, SYSTEM if system else ()).answer)


_popularity = lru_cache(maxsize=16)(popularity)


def _user(tier: str, weights: Mapping[str, Array], meant: Mapping[str, Array | None]) -> Any:
    critical, important = meant["critical"], meant["important"]
    assert critical is not None
    assert important is not None
    user = critical @ weights["critical"]
    return user if tier == "tertiary" else user + important @ weights["important"]


def _deep(weights: Mapping[str, Array], chosen: Array, meant: Mapping[str, Array | None]) -> Any:
    known = np.stack([f for tier in FEATURES if (f := meant[tier]) is not None])
    likeness = (chosen @ weights["query"]) @ (known @ weights["key"]).T / np.float32(WIDTH**0.5)
    weight = np.exp(likeness - likeness.max(axis=-1, keepdims=True))
    context = (weight / weight.sum(axis=-1, keepdims=True)) @ (known @ weights["value"])
    hidden = np.maximum(np.concatenate((chosen, context, chosen * context), axis=-1) @ weights["up"], 0)
    return np.maximum(hidden @ weights["middle"], 0) @ weights["down"]


class _Turn:
    """A session after one of its turns."""

    def __init__(self, cache: Tensor, fed: int, last: int | None, answer: tuple[int, ...]) -> None:
        self.cache, self.fed = cache, fed
        self.last = last  # token that was said, but not fed yet
        self.answer = answer


@lru_cache(maxsize=64)
def _turn(
    seed: int, generation: int, turns: tuple[tuple[int, ...], ...], tokens: int, system: tuple[int, ...]
) -> _Turn:
    if turns:
        before = _turn(seed, generation, turns[:-1], tokens, system)
        pending = (before.last,) if before.last is not None else ()
        return _extend(seed, generation, before, (*pending, *turns[-1]), tokens)
    import torch  # whoever only ranks need not load it

    from targets.serving.models.generator import pool

    with torch.inference_mode():
        empty = _Turn(pool(CONTEXT // BLOCK), 0, None, ())
    return _extend(seed, generation, empty, system, 0)


def _extend(seed: int, generation: int, before: _Turn, tokens: Sequence[int], wanted: int) -> _Turn:
    import torch

    from targets.serving.models.generator import step

    with torch.inference_mode():
        weights = _weights(seed, generation)
        cache, blocks = before.cache.clone(), torch.arange(CONTEXT // BLOCK)
        position, last = before.fed, None
        answer: list[int] = []
        pending = list(tokens)
        while pending:
            logits = step(weights, cache, blocks, position, pending.pop(0), _untouched)
            position += 1
            if not pending and len(answer) < wanted:
                last = int(logits.argmax())
                answer.append(last)
                if len(answer) < wanted:
                    pending.append(last)
        return _Turn(cache, position, last, tuple(answer))


@lru_cache(maxsize=4)
def _weights(seed: int, generation: int) -> Mapping[str, Tensor]:
    import torch

    # Copies, in memory that torch has aligned: the order of additions, and so the bits, may depend on that.
    return {name: torch.from_numpy(array).clone() for name, array in arrays(seed, generation, "generator").items()}


def _untouched(layer: str, output: Tensor) -> None:
    """Nobody tampers with a golden answer."""
