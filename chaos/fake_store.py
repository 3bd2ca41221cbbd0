"""The Redis of `chaos.testing.FakeTarget`: a few keys in memory, behind every link, for as long as anybody lives."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from fnmatch import fnmatchcase

import anyio.lowlevel

from chaos.api import JSON, Member
from chaos.talk import NobodyThere


class FakeStore:
    """Implements Dials. On a numb target what is written has no effect."""

    numb = False

    def __init__(self) -> None:
        super().__init__()
        self.keys: dict[bytes, bytes] = {b"f:%d" % n: b"value %d" % n for n in range(3)}
        self.expiries: dict[bytes, int] = {}  # milliseconds that are left
        self.written: dict[bytes, bytes] = dict(self.keys)  # by the target itself
        self.config = {b"maxmemory": b"0", b"maxmemory-policy": b"allkeys-lru"}
        self.dropped = self.hits = self.refused = 0
        self.foreign: dict[bytes, bytes] = {}  # lists and the like

    def members(self) -> tuple[Member, ...]:
        raise NotImplementedError

    @asynccontextmanager
    async def dial(self, link: str) -> AsyncIterator[FakeLine]:
        await anyio.lowlevel.checkpoint()
        if not self.members():
            raise NobodyThere(f"nobody listens at the end of link {link}")
        yield FakeLine(self, link)

    def spoilt(self) -> set[str]:
        """What is not as the target left it."""
        wrong = {f"value of {key.decode()}" for key, value in self.keys.items() if self.written.get(key) != value}
        return wrong - {"value of chaos:probe"} | (
            {"memory of the store"} if self.config[b"maxmemory"] != b"0" else set()
        )

    def obey(self, words: list[bytes]) -> bytes:
        """The answer to a call, as it goes over the wire."""
        match words[0].upper(), words[1:]:
            case b"SCAN", [_, _, pattern, *_]:
                found = [k for k in (*self.keys, *self.foreign) if fnmatchcase(k.decode(), pattern.decode())]
                return b"*2\r\n$1\r\n0\r\n*%d\r\n" % len(found) + b"".join(map(_bulk, found))
            case b"DEL", keys:
                gone = [] if self.numb else [key for key in keys if self.keys.pop(key, None) is not None]
                self.dropped += len(gone)
                return b":%d\r\n" % len(gone)
            case b"GET", [key]:
                if key in self.foreign:
                    return b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"
                self.hits += key in self.keys
                return _bulk(self.keys[key]) if key in self.keys else b"$-1\r\n"
            case b"PTTL", [key]:
                return b":%d\r\n" % self.expiries.get(key, -1)
            case b"SET", [key, value, *expiry]:
                if self.config[b"maxmemory"] != b"0":
                    self.refused += 1
                    return b"-OOM command not allowed when used memory > 'maxmemory'.\r\n"
                if not self.numb:
                    self.keys[key] = value
                    self.expiries.pop(key, None)
                    self.expiries |= {key: int(expiry[1])} if expiry else {}
                return b"+OK\r\n"
            case b"INFO", [b"stats"]:
                return _bulk(b"# Stats\r\nkeyspace_hits:%d\r\n" % self.hits)
            case b"INFO", [b"errorstats"]:
                return _bulk(
                    b"# Errorstats\r\n" + (b"errorstat_OOM:count=%d\r\n" % self.refused if self.refused else b"")
                )
            case b"CONFIG", [b"GET", name]:
                return b"*2\r\n" + _bulk(name) + _bulk(self.config[name])
            case b"CONFIG", [b"SET", name, value]:
                self.config |= {} if self.numb else {name: value}
                return b"+OK\r\n"
        return b"-ERR unknown command\r\n"


class FakeLine:
    """Implements Line; an answer arrives in two pieces."""

    def __init__(self, store: FakeStore, link: str) -> None:
        self._store, self._link = store, link
        self._answers: list[bytes] = []

    def about(self) -> JSON:
        return {"link": self._link, "from": "n0", "to": "n1:1"}

    async def send(self, data: bytes) -> None:
        await anyio.lowlevel.checkpoint()
        while data:
            head, _, data = data.partition(b"\r\n")
            words = []
            for _ in range(int(head[1:])):
                size, _, data = data.partition(b"\r\n")
                words.append(data[: int(size[1:])])
                data = data[int(size[1:]) + 2 :]
            answer = self._store.obey(words)
            self._answers += [answer[:3], answer[3:]]

    async def receive(self, within: float) -> bytes:
        await anyio.lowlevel.checkpoint()
        return self._answers.pop(0)


def _bulk(data: bytes) -> bytes:
    return b"$%d\r\n%s\r\n" % (len(data), data)
