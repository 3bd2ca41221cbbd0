"""What happened to connections: the evidence that a toxic really hit one."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Iterator
from typing import Any, TextIO

KEPT = 50_000


class Log:
    """The latest events in memory, and all of them in a file where one was given.

    `seq` counts from 1 without gaps; `t` is CLOCK_MONOTONIC in seconds, comparable between the processes of a machine.
    """

    def __init__(self, file: TextIO | None = None, *, kept: int = KEPT) -> None:
        self._events: deque[dict[str, Any]] = deque(maxlen=kept)
        self._file = file
        self.last = 0

    def record(self, event: str, **fields: Any) -> None:
        self.last += 1
        entry = {"seq": self.last, "t": time.monotonic(), "event": event, **fields}
        self._events.append(entry)
        if self._file is not None:
            self._file.write(json.dumps(entry) + "\n")
            self._file.flush()  # what a killed server saw is still there

    def since(self, seq: int) -> Iterator[str]:
        """The events after that one as lines of JSON; where older ones were dropped, the first `seq` shows it."""
        skip = max(0, len(self._events) - max(0, self.last - seq))
        for place, entry in enumerate(self._events):
            if place >= skip:
                yield json.dumps(entry) + "\n"
