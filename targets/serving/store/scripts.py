"""What changes several keys of the store at once, as Redis runs it (Lua) and as the embedded store does (Python)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Final, Protocol


class Keys(Protocol):
    """The embedded store, as far as scripts see it."""

    def number(self, key: bytes) -> int: ...
    def put(self, key: bytes, value: bytes, milliseconds: int | None) -> None: ...
    def put_fields(self, key: bytes, fields: dict[bytes, bytes], milliseconds: int | None) -> None: ...


Script = Callable[[Keys, Sequence[bytes], Sequence[bytes]], int]

# KEYS: fence. ARGV: the highest token that the caller knows of, milliseconds to live. Answers with a higher one.
ACQUIRE: Final = """
local token = math.max(tonumber(redis.call('GET', KEYS[1]) or '0'), tonumber(ARGV[1])) + 1
redis.call('SET', KEYS[1], token, 'PX', ARGV[2])
return token
"""

# KEYS: fence, hash. ARGV: token, milliseconds to live, field, value, ... Answers with the highest token that it knows,
# negative where that is higher, and nothing was written.
SAVE: Final = """
local highest = tonumber(redis.call('GET', KEYS[1]) or '0')
if tonumber(ARGV[1]) < highest then return -highest end
redis.call('HSET', KEYS[2], unpack(ARGV, 3))
redis.call('PEXPIRE', KEYS[2], ARGV[2])
return highest
"""

# KEYS: number. ARGV: the least that it shall be. Answers with what it is then.
RAISE: Final = """
local highest = math.max(tonumber(redis.call('GET', KEYS[1]) or '0'), tonumber(ARGV[1]))
redis.call('SET', KEYS[1], highest)
return highest
"""


def _acquire(store: Keys, keys: Sequence[bytes], arguments: Sequence[bytes]) -> int:
    token = max(store.number(keys[0]), int(arguments[0])) + 1
    store.put(keys[0], str(token).encode(), int(arguments[1]))
    return token


def _save(store: Keys, keys: Sequence[bytes], arguments: Sequence[bytes]) -> int:
    if int(arguments[0]) < (highest := store.number(keys[0])):
        return -highest
    store.put_fields(keys[1], dict(zip(arguments[2::2], arguments[3::2], strict=True)), int(arguments[1]))
    return highest


def _raise(store: Keys, keys: Sequence[bytes], arguments: Sequence[bytes]) -> int:
    highest = max(store.number(keys[0]), int(arguments[0]))
    store.put(keys[0], str(highest).encode(), None)
    return highest


def sha(script: str) -> str:
    """The name by which a script is called once it is known."""
    return hashlib.sha1(script.encode(), usedforsecurity=False).hexdigest()


EMBEDDED: Final[dict[str, Script]] = {sha(ACQUIRE): _acquire, sha(SAVE): _save, sha(RAISE): _raise}
