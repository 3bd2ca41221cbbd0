"""What the fault file system changes, and the record of what it changed. Standard library only.

An order is `{"op": "stand", "number", "kind", "pattern", …}` or `{"op": "lift", "number"}`; each is answered with
`{"answer": number, …}`. The first time that a lie hits, `{"hit": number, …}` tells what was changed.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import threading
import time
from collections.abc import Callable
from typing import Any

Tell = Callable[[dict[str, Any]], None]
KEPT = 8  # examples of hits


class Lie:
    """One lie: what it is, whom it concerns and how often it hit."""

    def __init__(self, order: dict[str, Any]) -> None:
        self.number: int = order["number"]
        self.kind: str = order["kind"]
        self.settings = order
        self._pattern = re.compile(order["pattern"])
        self.hits = 0
        self.seen = 0  # operations that it concerns
        self.amount = 0  # bytes
        self.seconds = 0.0
        self.examples: list[dict[str, Any]] = []
        self.free_at = 0.0  # when a throttled line is free again
        self.snapshot: dict[str, Any] = {}
        self.own: set[str] = set()  # what the member itself changed since: that it knows

    def concerns(self, path: str) -> bool:
        return self._pattern.fullmatch(path.removeprefix("/")) is not None

    def covers(self, path: str) -> bool:
        """Whether it concerns a path that the member has not changed itself, or what is in that folder."""
        return (self.concerns(path) or self.concerns(f"{path}/")) and not any(
            path == own or path.startswith(f"{own}/") for own in self.own
        )

    def due(self) -> bool:
        """Count an operation; whether it is one of those that are hit."""
        self.seen += 1
        last = self.settings.get("last")
        return self.seen >= self.settings.get("first", 1) and (last is None or self.seen <= last)

    def told(self) -> dict[str, Any]:
        found = {"hits": self.hits, "operations": self.seen, "examples": self.examples}
        return found | ({"bytes": self.amount, "seconds": round(self.seconds, 6)} if self.amount else {})


class Lies:
    """Those that stand. Called from several threads of libfuse at a time."""

    def __init__(self, base: str, tell: Tell) -> None:
        self._base, self._tell = base, tell
        self._standing: dict[str, list[Lie]] = {}
        self._turn = threading.RLock()
        self.operations = 0

    # --- orders

    def obey(self, order: dict[str, Any]) -> None:
        with self._turn:
            if order["op"] == "stand":
                lie = Lie(order)
                if lie.kind == "stale-metadata":
                    lie.snapshot = self._snapshot()
                self._standing.setdefault(lie.kind, []).append(lie)
                answer: dict[str, Any] = {}
            else:
                found = [lie for kind in self._standing.values() for lie in kind if lie.number == order["number"]]
                answer = found[0].told() if found else {}
                for kind in self._standing:
                    self._standing[kind] = [lie for lie in self._standing[kind] if lie not in found]
            if not order.get("silent"):
                self._tell({"answer": order["number"], "served": self.operations, **answer})

    def _snapshot(self) -> dict[str, Any]:
        """All names and attributes as they are now."""
        found: dict[str, Any] = {"/": (os.lstat(self._base + "/"), sorted(os.listdir(self._base)))}
        for place, folders, files in os.walk(self._base):
            above = place.removeprefix(self._base)
            for name in folders:
                path = f"{above}/{name}"
                found[path] = (os.lstat(self._base + path), sorted(os.listdir(self._base + path)))
            for name in files:
                found[f"{above}/{name}"] = (os.lstat(f"{place}/{name}"), None)
        return found

    def _of(self, kind: str, path: str) -> list[Lie]:
        return [lie for lie in self._standing.get(kind, ()) if lie.concerns(path)]

    def _hit(self, lie: Lie, **what: Any) -> None:
        with self._turn:
            lie.hits += 1
            if len(lie.examples) < KEPT:
                lie.examples.append(what)
            if lie.hits == 1:
                self._tell({"hit": lie.number, **what})

    # --- content

    def direct(self, path: str) -> bool:
        """Whether the kernel must not fill up what comes short, nor keep what was read."""
        return bool(self._of("short-read", path) or self._of("bit-rot", path))

    def about_reads(self, path: str) -> bool:
        return any(self._of(kind, path) for kind in ("bit-rot", "short-read", "throttle"))

    def about_writes(self, path: str) -> bool:
        return any(self._of(kind, path) for kind in ("torn-write", "throttle"))

    def read(self, path: str, data: bytes, size: int, offset: int, handle: int) -> bytes:
        for lie in self._of("bit-rot", path):
            data = self._rot(lie, path, data, offset, handle)
        for lie in self._of("short-read", path):
            share = lie.settings["keep"]
            keep = max(int(len(data) * share), 1) if share else 0  # no byte at all says that the file ends
            if data and keep < len(data) and lie.due():
                self._hit(lie, path=path[1:], offset=offset, asked=size, there=len(data), given=keep)
                data = data[:keep]
        for lie in self._of("throttle", path):
            self._pass(lie, path, len(data))
        return data

    def write(self, path: str, data: bytes, offset: int) -> bytes:
        """What of it reaches the file."""
        kept = data
        for lie in self._of("torn-write", path):
            keep = int(len(data) * lie.settings["keep"])
            if keep < len(kept) and lie.due():
                self._hit(lie, path=path[1:], offset=offset, written=len(data), kept=keep)
                kept = data[:keep]
        for lie in self._of("throttle", path):
            self._pass(lie, path, len(data))
        return kept

    def _rot(self, lie: Lie, path: str, data: bytes, offset: int, handle: int) -> bytes:
        size = os.fstat(handle).st_size
        place = min(int(size * lie.settings["at"]), size - 1) - offset
        if not 0 <= place < len(data):
            return data
        lie.seen += 1
        rotten = bytearray(data)
        rotten[place] ^= lie.settings["mask"]
        stored, given = data[place], rotten[place]
        self._hit(lie, path=path[1:], offset=offset + place, size=size, stored=stored, given=given)
        return bytes(rotten)

    def _pass(self, lie: Lie, path: str, size: int) -> None:
        """Wait for the line: all that concerns this lie shares it."""
        if not size:
            return
        took = size / lie.settings["rate"]
        with self._turn:
            now = time.monotonic()
            lie.free_at = max(lie.free_at, now) + took
            wait = lie.free_at - now
            lie.seen += 1
            lie.amount += size
            lie.seconds += took
        time.sleep(wait)
        self._hit(lie, path=path[1:], bytes=size, seconds=round(wait, 6))

    # --- names and attributes

    def changed(self, *paths: str) -> None:
        """The member itself makes, changes or removes these."""
        for lie in self._standing.get("stale-metadata", ()):
            with self._turn:
                lie.own.update(paths)

    def _stale(self, path: str) -> list[Lie]:
        return [lie for lie in self._standing.get("stale-metadata", ()) if lie.covers(path)]

    def visible(self, path: str) -> None:
        """Raise what a client gets that does not know the file yet, or that knows one which is gone."""
        for lie in self._stale(path):
            if path not in lie.snapshot and os.path.lexists(self._base + path):
                self._hit(lie, path=path[1:], op="open", truth="there", said="nothing")
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            if path in lie.snapshot and not os.path.lexists(self._base + path):
                raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    def stat(self, path: str, ask: Callable[[str], os.stat_result], real: str) -> os.stat_result:
        stale = self._stale(path)
        if not stale:
            return ask(real)
        try:
            truth: os.stat_result | None = ask(real)
        except FileNotFoundError:
            truth = None
        for lie in stale:
            known = lie.snapshot.get(path)
            if known is None:
                if truth is not None:
                    self._hit(lie, path=path[1:], op="stat", truth="there", said="nothing")
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            # What changed in a folder is told by its names; its times change by what the client does there itself.
            same = truth is not None and (stat.S_ISDIR(truth.st_mode) or _dated(truth) == _dated(known[0]))
            if not same:
                now = "nothing" if truth is None else _dated(truth)
                self._hit(lie, path=path[1:], op="stat", truth=now, said=_dated(known[0]))
            truth = known[0]
        assert truth is not None
        return truth

    def names(self, path: str, ask: Callable[[str], list[str]], real: str) -> list[str]:
        for lie in self._stale(path):
            known = lie.snapshot.get(path)
            old: list[str] = known[1] if known is not None and known[1] is not None else []
            try:
                truth = ask(real)
            except FileNotFoundError:
                truth = []
            own = {name.rpartition("/")[2] for name in lie.own if name.rpartition("/")[0] == path.rstrip("/")}
            said = [name for name in old if name not in own] + [name for name in truth if name in own]
            if differ := sorted(set(truth) ^ set(said)):
                self._hit(lie, path=path[1:], op="list", truth=len(truth), said=len(said), differ=differ[:KEPT])
            return said
        return ask(real)


def _dated(about: os.stat_result) -> dict[str, int]:
    """What tells one version of a file from another."""
    return {"bytes": about.st_size, "mtime_ns": about.st_mtime_ns}
