"""The one thread in which all tapped calls of a run are heard and answered. It never waits for an answer of others."""

from __future__ import annotations

import errno
import heapq
import os
import select
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import NamedTuple, Protocol

from chaos.drivers.process.fittings.tap.bell import Bell
from chaos.drivers.process.fittings.tap.notice import Notice, answer, receive, still_valid
from chaos.drivers.process.fittings.tap.operation import Operation


class Answer(NamedTuple):
    """What the member's call returns: it happens (`go_on`), or it does not and `value` or `error` is said."""

    value: int = 0
    error: int = 0
    go_on: bool = False


GO_ON = Answer(go_on=True)


class Pending:
    """An operation on its way to an answer."""

    def __init__(self, listener: int, notice: Notice, operation: Operation) -> None:
        self.listener = listener
        self.notice = notice
        self.operation = operation
        self.did = ""  # what was made of it, for the record
        self.turn = 0  # grows with every step that was planned for it: only the last one counts
        self.answer: Answer | None = None
        self.delivered: Callable[[bool], None] | None = None  # told whether the member got the answer


Step = Callable[[], Answer | None]


class Desk(Protocol):
    """Who decides: called in the thread."""

    def take(self, pending: Pending) -> Answer | None:
        """A new operation: the answer, or None when somebody will call `Server.resume`."""

    def done(self, pending: Pending, delivered: bool) -> None:
        """It was answered; whether the member still waited."""

    def blind(self, error: OSError) -> None:
        """A call could not be read; it went on."""

    def broke(self, error: Exception) -> None:
        """Something raised that should not; the operation went on."""


class Server:
    """`run` is the thread; everything else may be called from another one."""

    def __init__(self, desk: Desk, calls: dict[int, str]) -> None:
        self._desk, self._calls = desk, calls
        self._poll = select.poll()
        self._bell = Bell()
        self._poll.register(self._bell.fd, select.POLLIN)
        self._channels: dict[int, tuple[socket.socket, str]] = {}  # listeners come through these
        self._listeners: dict[int, str] = {}  # and the member that the harness started
        self._timers: list[tuple[float, int, Pending, int, Step]] = []
        self._number = count()
        self._open: dict[int, Pending] = {}  # by thread: not answered, or the answer did not reach it
        self._over = False

    # --- from other threads

    def expect(self, channel: socket.socket, program: str) -> None:
        """A member is about to be started; its listener comes through `channel`, which is ours from now on."""

        def add() -> None:
            self._channels[channel.fileno()] = channel, program
            self._poll.register(channel, select.POLLIN)

        self.do(add)

    def resume(self, pending: Pending, step: Step, after: float = 0.0) -> None:
        """Go on with an operation that waits, after so many seconds; replaces what was planned for it."""
        self.do(lambda: self._plan(pending, step, time.monotonic() + after))

    def stop(self) -> None:
        """End the thread; harmless when it has ended."""

        def end() -> None:
            self._over = True

        self.do(end)

    def do(self, what: Callable[[], None]) -> None:
        """Have it done in the thread."""
        self._bell.ask(what)

    # --- the thread

    def run(self) -> None:
        """Until `stop`."""
        try:
            while not self._over:
                ready = self._poll.poll(self._patience())
                for fd, events in ready:
                    if fd == self._bell.fd:
                        self._bell.answer()
                    elif fd in self._channels:
                        self._welcome(*self._channels.pop(fd))
                    elif events & select.POLLIN:
                        self._hear(fd)
                    else:  # nobody is left who has that filter
                        self._close(fd)
                self._ring()
        finally:
            self._bell.close()
            for channel, _ in self._channels.values():
                channel.close()
            for listener in tuple(self._listeners):
                self._close(listener)

    def _patience(self) -> float | None:
        if not self._timers:
            return None
        return max(0.0, (self._timers[0][0] - time.monotonic()) * 1000)

    def _welcome(self, channel: socket.socket, program: str) -> None:
        self._poll.unregister(channel)
        with channel, suppress(OSError):
            _, fds, _, _ = socket.recv_fds(channel, 1, 1, socket.MSG_CMSG_CLOEXEC)
            for listener in fds:  # none when the member could not be started
                self._listeners[listener] = program
                self._poll.register(listener, select.POLLIN)

    def _close(self, listener: int) -> None:
        self._poll.unregister(listener)
        del self._listeners[listener]
        os.close(listener)
        self._open = {tid: p for tid, p in self._open.items() if p.listener != listener}

    def _hear(self, listener: int) -> None:
        notice = receive(listener)
        if notice is None or self._again(notice):
            return
        try:
            operation = Operation(notice, self._calls[notice.number], self._listeners[listener])
        except OSError as error:
            if error.errno in (errno.EPERM, errno.EACCES) and still_valid(listener, notice.id):
                self._desk.blind(error)
            answer(listener, notice.id, go_on=True)  # an address or a descriptor that is none: the program's own fault
            return
        if not still_valid(listener, notice.id):  # what was read may be that of another process with this number
            return
        pending = self._open[notice.tid] = Pending(listener, notice, operation)
        self._step(pending, lambda: self._desk.take(pending))

    def _again(self, notice: Notice) -> bool:
        """Whether a signal interrupted the wait of that thread and this is the same call once more, counted already."""
        before = self._open.get(notice.tid)
        if before is None or before.notice.call != notice.call:
            return False
        before.notice = notice
        if before.answer is not None:
            self._reply(before, before.answer)
        return True

    def _step(self, pending: Pending, step: Step) -> None:
        try:
            said = step()
        except Exception as error:
            if still_valid(pending.listener, pending.notice.id):  # else its process has gone, and with it the reason
                self._desk.broke(error)
            said = GO_ON
        if said is not None:
            self._reply(pending, said)

    def _reply(self, pending: Pending, said: Answer) -> None:
        pending.answer = said
        pending.turn += 1
        reached = answer(pending.listener, pending.notice.id, said.value, said.error, go_on=said.go_on)
        if reached:
            self._open.pop(pending.notice.tid, None)
        if pending.delivered is not None:
            pending.delivered(reached)
        self._desk.done(pending, reached)

    def _plan(self, pending: Pending, step: Step, when: float) -> None:
        pending.turn += 1
        heapq.heappush(self._timers, (when, next(self._number), pending, pending.turn, step))

    def _ring(self) -> None:
        while self._timers and self._timers[0][0] <= time.monotonic():
            _, _, pending, turn, step = heapq.heappop(self._timers)
            if turn == pending.turn and self._open.get(pending.notice.tid) is pending:
                self._step(pending, step)
