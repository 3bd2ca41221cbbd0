"""A way to wake another thread, or the event loop, that may be used until the end and beyond."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable


class Bell:
    """What one side asks of the other, and a file descriptor that is readable as long as there is something to do."""

    def __init__(self) -> None:
        self.fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._todo: deque[Callable[[], None]] = deque()
        self._lock = threading.Lock()

    def ask(self, what: Callable[[], None]) -> None:
        """Have it done by the other side; never, once that has closed."""
        with self._lock:
            if self.fd >= 0:
                self._todo.append(what)
                os.eventfd_write(self.fd, 1)

    def answer(self) -> None:
        """Do what was asked for."""
        try:
            os.eventfd_read(self.fd)
        except BlockingIOError:
            return
        while self._todo:
            self._todo.popleft()()

    def close(self) -> None:
        """Nobody answers any more."""
        with self._lock:
            fd, self.fd = self.fd, -1
        os.close(fd)
