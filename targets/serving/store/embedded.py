"""A store for machines without Redis: the same protocol (RESP 2) and the commands that the stack uses, in memory."""

from __future__ import annotations

import asyncio
import fnmatch
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from targets.serving.settings import Address
from targets.serving.store.scripts import EMBEDDED, sha

Value = bytes | dict[bytes, bytes]
Reply = bytes | int | None | str | Exception | list["Reply"]  # a str is a status, such as OK


class Wrong(Exception):
    """A call that cannot be obeyed; the message goes to the client."""


class Memory:
    """Keys, values, and when they expire."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._values: dict[bytes, Value] = {}
        self._ends: dict[bytes, float] = {}

    def get(self, key: bytes) -> Value | None:
        if key in self._ends and self._ends[key] <= self._clock():
            self.delete(key)
        return self._values.get(key)

    def text(self, key: bytes) -> bytes | None:
        value = self.get(key)
        if isinstance(value, dict):
            raise Wrong("WRONGTYPE Operation against a key holding the wrong kind of value")
        return value

    def fields(self, key: bytes) -> dict[bytes, bytes]:
        value = self.get(key)
        if isinstance(value, bytes):
            raise Wrong("WRONGTYPE Operation against a key holding the wrong kind of value")
        return value or {}

    def number(self, key: bytes) -> int:
        return int(self.text(key) or b"0")

    def put(self, key: bytes, value: bytes, milliseconds: int | None) -> None:
        self._values[key] = value
        self._ends.pop(key, None)
        if milliseconds is not None:
            self.expire(key, milliseconds)

    def put_fields(self, key: bytes, fields: dict[bytes, bytes], milliseconds: int | None) -> None:
        self._values[key] = {**self.fields(key), **fields}
        if milliseconds is not None:
            self.expire(key, milliseconds)

    def expire(self, key: bytes, milliseconds: int) -> bool:
        if self.get(key) is None:
            return False
        self._ends[key] = self._clock() + milliseconds / 1000
        return True

    def delete(self, key: bytes) -> bool:
        self._ends.pop(key, None)
        return self._values.pop(key, None) is not None

    def keys(self, pattern: str = "*") -> list[bytes]:
        there = [key for key in list(self._values) if self.get(key) is not None]
        return [key for key in there if fnmatch.fnmatchcase(key.decode("latin-1"), pattern)]

    def clear(self) -> None:
        self._values.clear()
        self._ends.clear()


class Commands:
    """Calls as clients make them."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._scripts = set(EMBEDDED)

    def call(self, words: Sequence[bytes]) -> Reply:
        """The answer; an Exception is one that says so."""
        name, arguments = words[0].decode("latin-1").upper(), words[1:]
        command = getattr(self, f"_{name.lower()}", None)
        if command is None or not name.isalpha():
            return Wrong(f"ERR unknown command '{name}'")
        try:
            reply: Reply = command(*arguments)
        except Wrong as wrong:
            return wrong
        except (TypeError, ValueError, IndexError):
            return Wrong(f"ERR wrong arguments for '{name}'")
        return reply

    def _ping(self, text: bytes | None = None) -> Reply:
        return text if text is not None else "PONG"

    def _hello(self, version: bytes = b"2", *_: bytes) -> Reply:
        if version != b"2":
            raise Wrong("NOPROTO unsupported protocol version")
        return [b"server", b"redis", b"version", b"7.0.0", b"proto", 2]

    def _client(self, *_: bytes) -> Reply:
        return "OK"

    def _select(self, number: bytes) -> Reply:
        if number != b"0":
            raise Wrong("ERR DB index is out of range")
        return "OK"

    def _info(self, *_: bytes) -> Reply:
        return b"# Server\r\nredis_version:7.0.0\r\nredis_mode:embedded\r\n"

    def _get(self, key: bytes) -> Reply:
        return self._memory.text(key)

    def _mget(self, *keys: bytes) -> Reply:
        return [self._memory.text(key) for key in keys]

    def _set(self, key: bytes, value: bytes, *options: bytes) -> Reply:
        said = [option.upper() for option in options]
        if b"NX" in said and self._memory.get(key) is not None:
            return None
        lives = None
        for unit, factor in ((b"EX", 1000), (b"PX", 1)):
            if unit in said:
                lives = int(options[said.index(unit) + 1]) * factor
        self._memory.put(key, value, lives)
        return "OK"

    def _mset(self, *pairs: bytes) -> Reply:
        for key, value in zip(pairs[::2], pairs[1::2], strict=True):
            self._memory.put(key, value, None)
        return "OK"

    def _incr(self, key: bytes) -> Reply:
        number = self._memory.number(key) + 1
        self._memory.put(key, str(number).encode(), None)
        return number

    def _del(self, *keys: bytes) -> Reply:
        return sum(self._memory.delete(key) for key in keys)

    _unlink = _del

    def _exists(self, *keys: bytes) -> Reply:
        return sum(self._memory.get(key) is not None for key in keys)

    def _expire(self, key: bytes, seconds: bytes) -> Reply:
        return int(self._memory.expire(key, int(seconds) * 1000))

    def _pexpire(self, key: bytes, milliseconds: bytes) -> Reply:
        return int(self._memory.expire(key, int(milliseconds)))

    def _hset(self, key: bytes, *pairs: bytes) -> Reply:
        before = len(self._memory.fields(key))
        self._memory.put_fields(key, dict(zip(pairs[::2], pairs[1::2], strict=True)), None)
        return len(self._memory.fields(key)) - before

    def _hgetall(self, key: bytes) -> Reply:
        return [part for pair in self._memory.fields(key).items() for part in pair]

    def _keys(self, pattern: bytes) -> Reply:
        return list(self._memory.keys(pattern.decode("latin-1")))

    def _scan(self, cursor: bytes, *options: bytes) -> Reply:
        said = [option.upper() for option in options]
        pattern = options[said.index(b"MATCH") + 1] if b"MATCH" in said else b"*"
        return [b"0", self._keys(pattern)]

    def _dbsize(self) -> Reply:
        return len(self._memory.keys())

    def _flushdb(self, *_: bytes) -> Reply:
        self._memory.clear()
        return "OK"

    _flushall = _flushdb

    def _script(self, verb: bytes, text: bytes = b"", *_: bytes) -> Reply:
        if verb.upper() == b"LOAD" and (name := sha(text.decode())) in EMBEDDED:
            return name.encode()
        raise Wrong("ERR this store runs only the scripts of its stack")

    def _eval(self, text: bytes, count: bytes, *rest: bytes) -> Reply:
        return self._evalsha(sha(text.decode()).encode(), count, *rest)

    def _evalsha(self, name: bytes, count: bytes, *rest: bytes) -> Reply:
        script = EMBEDDED.get(name.decode())
        if script is None:
            raise Wrong("NOSCRIPT No matching script")
        return script(self._memory, rest[: int(count)], rest[int(count) :])


class Server:
    """Listens, and answers one call after the other: no two are ever mixed."""

    def __init__(self) -> None:
        self.memory = Memory()
        self._commands = Commands(self.memory)
        self._server: asyncio.Server | None = None
        self._talking: set[asyncio.StreamWriter] = set()

    async def start(self, address: Address) -> Address:
        self._server = await asyncio.start_server(self._talk, *address)
        return Address(*self._server.sockets[0].getsockname()[:2])

    async def close(self) -> None:
        """Listen no more, and end every conversation."""
        if self._server:
            self._server.close()
        for writer in self._talking:
            writer.close()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._talking.add(writer)
        with suppress(OSError, asyncio.IncompleteReadError, ValueError):
            while words := await _read(reader):
                writer.write(encode(self._commands.call(words)))
                await writer.drain()
        self._talking.discard(writer)
        writer.close()


async def _read(reader: asyncio.StreamReader) -> list[bytes]:
    """One call; empty at the end of the stream."""
    line = await reader.readline()
    if not line.startswith(b"*"):
        return line.split()
    words = []
    for _ in range(int(line[1:])):
        size = int((await reader.readline())[1:])
        words.append((await reader.readexactly(size + 2))[:-2])
    return words


def encode(reply: Reply) -> bytes:
    """As RESP 2 has it."""
    match reply:
        case None:
            return b"$-1\r\n"
        case bytes():
            return b"$%d\r\n%b\r\n" % (len(reply), reply)
        case int():
            return b":%d\r\n" % reply
        case str():
            return f"+{reply}\r\n".encode()
        case list():
            return b"*%d\r\n" % len(reply) + b"".join(encode(one) for one in reply)
        case Exception():
            return f"-{reply}\r\n".encode()
