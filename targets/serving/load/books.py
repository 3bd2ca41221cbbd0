"""Where every request is accounted for once: in Locust's statistics and, as the same figures, in the run's facts.

Answers go to the checker first, and are booked in that order once it has answered. Nobody who books is kept waiting by
the harness or by the checker: both are written to by greenlets of their own.
"""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable
from typing import Any

import gevent
import msgspec
from gevent.event import Event
from gevent.queue import SimpleQueue

from chaos import inside
from targets.serving.load import facts
from targets.serving.load.checker import Finding, Scores, Tokens

Fact = tuple[str, float, dict[str, Any]]
Count = Callable[[dict[str, Any]], None]  # told of each `request.completed`
_CHUNK = 1 << 16


class Books:
    """`checker`: a socket to the process that compares; None: nothing is compared."""

    def __init__(self, checker: socket.socket | None, count: Count) -> None:
        self._count = count
        self._facts: SimpleQueue[Fact] = SimpleQueue()
        self._asked: deque[tuple[float, dict[str, Any]]] = deque()  # what the checker has not answered yet
        self._questions: SimpleQueue[bytes] = SimpleQueue()
        self._checker = checker
        self._settled = Event()
        self._settled.set()
        self._tasks = [gevent.spawn(self._write)]
        if checker is not None:
            self._tasks += [gevent.spawn(self._ask, checker), gevent.spawn(self._hear, checker)]

    def tell(self, kind: str, t: float, data: dict[str, Any]) -> None:
        """A fact that happened at `t`, a reading of the monotonic clock."""
        self._facts.put((kind, t, data))

    def complete(self, t: float, data: dict[str, Any], question: Scores | Tokens | None) -> None:
        """A request has ended at `t`; `question`: what the golden model is asked about it."""
        if question is None or self._checker is None:
            self._book(t, data)
        else:
            self._settled.clear()
            self._asked.append((t, data))
            self._questions.put(msgspec.json.encode(question) + b"\n")

    def settle(self, within: float) -> bool:
        """Wait until the checker has answered all that it was asked; what it has not is booked without."""
        settled: bool = self._settled.wait(within)
        self._give_up()
        return settled

    def flush(self, within: float) -> None:
        """Wait until the harness has all facts."""
        done = Event()
        self._facts.put(("", 0.0, {"done": done}))
        done.wait(within)

    def _book(self, t: float, data: dict[str, Any]) -> None:
        self._count(data)
        self.tell("request.completed", t, data)

    def _write(self) -> None:
        while True:
            batch = [self._facts.get()]
            while not self._facts.empty():
                batch.append(self._facts.get())
            inside.emit_all(fact for fact in batch if fact[0])
            for kind, _, data in batch:
                if not kind:
                    data["done"].set()

    def _ask(self, checker: socket.socket) -> None:
        try:
            while True:
                checker.sendall(self._questions.get())
        except OSError:
            self._give_up()

    def _hear(self, checker: socket.socket) -> None:
        decoder, rest = msgspec.json.Decoder(Finding), b""
        while chunk := _receive(checker):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                self._found(decoder.decode(line))
        self._give_up()

    def _found(self, found: Finding) -> None:
        if self._asked:
            t, data = self._asked.popleft()
            self._book(t, facts.compared(data, found))
        if not self._asked:
            self._settled.set()

    def _give_up(self) -> None:
        self._checker = None
        while self._asked:
            self._book(*self._asked.popleft())
        self._settled.set()


def _receive(stream: socket.socket) -> bytes:
    try:
        return stream.recv(_CHUNK)
    except OSError:
        return b""
