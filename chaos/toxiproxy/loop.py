"""An asyncio loop whose selector serves the sockets of the proxies itself.

The API, timers and name look-ups are plain asyncio. What moves bytes is called straight from the selector: the loop's
own way from a ready socket to a callback costs as much as the system calls that forward a small message.
"""

from __future__ import annotations

import asyncio
import select
import selectors
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeAlias

IN, OUT = select.EPOLLIN, select.EPOLLOUT
TROUBLE = select.EPOLLERR | select.EPOLLHUP
AT_ONCE = 256  # events taken from the kernel in one go
FINE = 0.002  # seconds; shorter waits are not left to epoll, which counts in whole milliseconds

Handler: TypeAlias = Callable[[int], None]


class Poller(selectors.BaseSelector):
    """A selector for asyncio, and beside it a table of descriptors with handlers of their own."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._keys: dict[int, selectors.SelectorKey] = {}
        self._handlers: dict[int, Handler] = {}
        self._fine = self._epoll.fileno() < 1024  # what select() can wait for
        self.failed: Callable[[Exception], None] = lambda error: None

    # --- for asyncio -------------------------------------------------------------------------------------------------

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        fd = _number(fileobj)
        if fd in self._keys:
            raise KeyError(f"{fd} is already registered")
        self._epoll.register(fd, _mask(events))
        self._keys[fd] = key = selectors.SelectorKey(fileobj, fd, events, data)
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        key = self._keys.pop(_number(fileobj))
        with suppress(OSError):  # closed already, and the kernel has forgotten it by then
            self._epoll.unregister(key.fd)
        return key

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        fd = _number(fileobj)
        key = self._keys[fd]
        if events != key.events:
            self._epoll.modify(fd, _mask(events))
        self._keys[fd] = key = selectors.SelectorKey(key.fileobj, fd, events, data)
        return key

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._keys

    def close(self) -> None:
        self._epoll.close()
        self._keys.clear()
        self._handlers.clear()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait, serve what has a handler, and return the rest. May return early, with nothing."""
        if timeout is None:
            wait = -1.0
        elif timeout <= 0:
            wait = 0.0
        elif timeout < FINE and self._fine:
            select.select((self._epoll,), (), (), timeout)
            wait = 0.0
        else:
            wait = int(timeout * 1000 - 1) / 1000 if self._fine else timeout
        ready: list[tuple[selectors.SelectorKey, int]] = []
        handlers = self._handlers
        for fd, mask in self._epoll.poll(wait, AT_ONCE):
            handler = handlers.get(fd)
            if handler is not None:
                try:
                    handler(mask)
                except Exception as error:  # one connection's bug must not end all others
                    self.failed(error)
            elif (key := self._keys.get(fd)) is not None:
                reads = selectors.EVENT_READ if mask & ~OUT else 0
                writes = selectors.EVENT_WRITE if mask & ~IN else 0
                ready.append((key, (reads | writes) & key.events))
        return ready

    # --- for proxies -------------------------------------------------------------------------------------------------

    def watch(self, fd: int, mask: int, handler: Handler) -> None:
        """Call the handler with the ready mask; also with that of an event that is no longer true."""
        self._epoll.register(fd, mask)
        self._handlers[fd] = handler

    def change(self, fd: int, mask: int) -> None:
        self._epoll.modify(fd, mask)

    def forget(self, fd: int) -> None:
        """To be called before the descriptor is closed."""
        if self._handlers.pop(fd, None) is not None:
            self._epoll.unregister(fd)


class Loop(asyncio.SelectorEventLoop):
    """The loop of the server; `poller` is for sockets of proxies."""

    def __init__(self) -> None:
        self.poller = Poller()
        super().__init__(self.poller)
        self.poller.failed = self._report

    def _report(self, error: Exception) -> None:
        self.call_exception_handler({"message": "a proxy's handler failed", "exception": error})


def _number(fileobj: Any) -> int:
    return fileobj if isinstance(fileobj, int) else int(fileobj.fileno())


def _mask(events: int) -> int:
    return (IN if events & selectors.EVENT_READ else 0) | (OUT if events & selectors.EVENT_WRITE else 0)
