"""Features of users: what the store holds of them, how it is written there, and what stands in for it."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from functools import cache
from typing import Final

import numpy as np

from targets.serving.models.shapes import WIDTH
from targets.serving.models.weights import Array, draw
from targets.serving.settings import FEATURES, USERS

DEFAULT: Final = np.full(WIDTH, 0.1, dtype=np.float32)  # of a user of whom nothing is known
LENGTH: Final = 4 * WIDTH + 4

# How a tier's features came to be what they are, as an answer tells of it.
LIVE, CACHED, DEFAULTS, OMITTED = "live", "cached", "default", "omitted"


class Wrong(ValueError):
    """What the store gave is not what was written there."""


@cache
def table(seed: int, tier: str) -> Array:
    """The features of all users in one tier."""
    return draw(seed, f"features.{tier}", (USERS, WIDTH))


def key(tier: str, user: int) -> str:
    """Where the store has them."""
    return f"f:{tier}:{user}"


def encode(features: Array, user: int) -> bytes:
    """With a checksum that also says whose they are."""
    body = features.tobytes()
    return body + zlib.crc32(body, user).to_bytes(4, "little")


def decode(data: bytes, user: int, *, checked: bool = True) -> Array:
    """What `encode` wrote; raises Wrong."""
    fits = not checked or zlib.crc32(data[:-4], user) == int.from_bytes(data[-4:], "little")
    if len(data) != LENGTH or not fits:
        raise Wrong(f"features of user {user} do not match their checksum")
    return np.frombuffer(data, dtype=np.float32, count=WIDTH)


def written(seed: int, user: int) -> dict[str, bytes]:
    """All that the store has of a user, by key."""
    return {key(tier, user): encode(table(seed, tier)[user], user) for tier in FEATURES}


def meant(seed: int, user: int, states: Mapping[str, str]) -> dict[str, Array | None]:
    """The features that an answer was computed from, by what it says of them; None: left out."""
    found: dict[str, Array | None] = {}
    for tier in FEATURES:
        match states.get(tier, LIVE):
            case "default":
                found[tier] = DEFAULT
            case "omitted":
                found[tier] = None
            case _:
                found[tier] = table(seed, tier)[user]
    return found
