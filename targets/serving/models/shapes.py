"""Sizes of the models, beside those that their clients know (settings.py)."""

from __future__ import annotations

from typing import Final

WIDTH: Final = 16  # of a user's features in one tier, and of an item
DEEP: Final = 2.5  # what the primary model's network adds to the part that lower rungs know as well

CONTEXT: Final = 1024  # tokens of a session, the system prompt included; one that would get longer is refused
LAYERS: Final = 2
HEADS: Final = 2
HIDDEN: Final = 32  # of the generator
BLOCK: Final = 16  # tokens of one block of the KV cache
SYSTEM: Final = tuple(b"You answer, byte by byte, for ev")  # before the first prompt of every session; whole blocks
