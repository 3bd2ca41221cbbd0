"""All weights, drawn from (seed, generation, name): a published file and a golden answer come from the same numbers."""

from __future__ import annotations

import zlib
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from targets.serving.models.shapes import CONTEXT, HIDDEN, LAYERS, WIDTH
from targets.serving.settings import ITEMS, VOCABULARY

Array = NDArray[np.float32]
Shape = tuple[int, ...]

_SHARED: Final[dict[str, tuple[Shape, float]]] = {
    "items": ((ITEMS, WIDTH), 1.0),
    "bias": ((ITEMS,), 0.5),
    "critical": ((WIDTH, WIDTH), 0.25),
}
# What each rung of the ladder knows. Names that two of them share mean the same numbers, so that a lower rung ranks
# like a higher one that knows less, not like a stranger.
_RANKING: Final[dict[str, dict[str, tuple[Shape, float]]]] = {
    "primary": {
        **_SHARED,
        "important": ((WIDTH, WIDTH), 0.2),
        "query": ((WIDTH, WIDTH), 0.25),
        "key": ((WIDTH, WIDTH), 0.25),
        "value": ((WIDTH, WIDTH), 0.25),
        "up": ((3 * WIDTH, 2 * WIDTH), 0.15),
        "middle": ((2 * WIDTH, 2 * WIDTH), 0.2),
        "down": ((2 * WIDTH,), 0.3),
    },
    "secondary": {**_SHARED, "important": ((WIDTH, WIDTH), 0.2)},
    "tertiary": dict(_SHARED),
}


def _generator() -> dict[str, tuple[Shape, float]]:
    shapes: dict[str, tuple[Shape, float]] = {
        "embedding": ((VOCABULARY, HIDDEN), 1.0),
        "positions": ((CONTEXT, HIDDEN), 0.7),
        "head": ((HIDDEN, VOCABULARY), 0.5),
    }
    for layer in range(LAYERS):
        shapes |= {
            f"qkv.{layer}": ((HIDDEN, 3 * HIDDEN), 0.35),
            f"out.{layer}": ((HIDDEN, HIDDEN), 0.5),
            f"up.{layer}": ((HIDDEN, 4 * HIDDEN), 0.25),
            f"down.{layer}": ((4 * HIDDEN, HIDDEN), 0.15),
        }
    return shapes


MODELS: Final = {**_RANKING, "generator": _generator()}  # by the name of their shard


def draw(seed: int, name: str, shape: Shape, generation: int = 0) -> Array:
    """Standard normal numbers that belong to this name."""
    dice = np.random.default_rng([seed, generation, zlib.crc32(name.encode())])
    return dice.standard_normal(shape, dtype=np.float32)


@cache
def arrays(seed: int, generation: int, model: str) -> dict[str, Array]:
    """The weights of a model; not to be changed."""
    owner = "generator" if model == "generator" else "ranking"
    return {
        name: draw(seed, f"{owner}.{name}", shape, generation) * np.float32(scale)
        for name, (shape, scale) in MODELS[model].items()
    }


def popularity(seed: int, generation: int) -> list[float]:
    """What the static rung says of every item: its bias, known to whoever is asked."""
    return [round(float(value), 6) for value in arrays(seed, generation, "tertiary")["bias"]]
