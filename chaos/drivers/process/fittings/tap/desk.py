"""Decides about every tapped operation of a run: triggers hold it, rules hit it, observers see it or do it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import anyio
import msgspec
from anyio.abc import TaskGroup

from chaos.api import Stage
from chaos.drivers.process.fittings.tap.armed import Armed
from chaos.drivers.process.fittings.tap.bell import Bell
from chaos.drivers.process.fittings.tap.observer import Observer
from chaos.drivers.process.fittings.tap.operation import Operation
from chaos.drivers.process.fittings.tap.server import GO_ON, Answer, Pending, Server, Step
from chaos.drivers.process.fittings.tap.unsynced import Unsynced
from chaos.trigger import OnFile, matches_path

FAR = 64  # generations of processes between a member and one that says nothing of itself


class Desk:
    """Implements the server's Desk in the thread, and the rules' House on both sides."""

    def __init__(
        self, data: Path, record: Path, stage: Stage, files: Sequence[OnFile], observers: Sequence[Observer],
        unsynced: Unsynced, calls: dict[int, str],
    ) -> None:  # fmt: skip
        self.unsynced = unsynced
        self.known: dict[int, str] = {}  # members by process id
        self._root = f"{data}/"
        self._record_path = record
        self._record: BinaryIO | None = None
        self._stage, self._files = stage, tuple(files)
        self._observers = (unsynced, *observers) if unsynced.patterns else tuple(observers)
        self._rules: list[Armed] = []
        self._server = Server(self, calls)
        self._bell = Bell()
        self._hearing = anyio.CancelScope()
        self._tasks: TaskGroup | None = None
        self._unread = ""

    # --- the event loop

    @property
    def server(self) -> Server:
        return self._server

    async def serve(self, tasks: TaskGroup) -> None:
        """Do what the thread asks for, until the thread has ended."""
        self._tasks = tasks
        try:
            with self._hearing:
                while True:
                    await anyio.wait_readable(self._bell.fd)
                    self._bell.answer()
        finally:
            self._server.stop()  # nobody would hear it any more
            self._bell.close()

    def close(self) -> None:
        """The thread has ended."""
        self._hearing.cancel()
        if self._record is not None:
            self._record.close()

    async def arm(self, armed: Armed) -> None:
        """Returns when it stands."""
        stands = anyio.Event()

        def add() -> None:
            self._rules.append(armed)
            self.tell(stands.set)

        self.do(add)
        await stands.wait()

    async def _stand(self, pending: Pending, who: str, touched: Sequence[tuple[str, str]]) -> None:
        for op, path in touched:
            await self._stage.at_file(who, op, path, {"pid": pending.operation.pid})
        self.resume(pending, lambda: self._judge(pending))

    # --- both

    def do(self, what: Callable[[], None]) -> None:
        self._server.do(what)

    def tell(self, what: Callable[[], None]) -> None:
        self._bell.ask(what)

    def resume(self, pending: Pending, step: Step, after: float = 0.0) -> None:
        self._server.resume(pending, step, after)

    # --- the thread

    def take(self, pending: Pending) -> Answer | None:
        operation = pending.operation
        paths = self._relative(operation)
        touched = tuple(dict.fromkeys(t for when in self._files if (t := _touched(when, operation, paths))))
        if not touched:
            return self._judge(pending)
        who = self._who(operation)

        def stand() -> None:
            assert self._tasks is not None
            self._tasks.start_soon(self._stand, pending, who, touched)

        self.tell(stand)
        return None

    def _judge(self, pending: Pending) -> Answer | None:
        operation = pending.operation
        paths, hit = self._relative(operation), None
        for armed in tuple(self._rules):  # every rule counts, also when another one hits
            path = armed.meets(operation, paths, lambda: self._who(operation))
            hit = hit or (path is not None and (armed, path)) or None
        if hit is None:
            return self.pass_on(pending)
        armed, path = hit
        return armed.hit(pending, self._who(operation), path)

    def pass_on(self, pending: Pending) -> Answer | None:
        for observer in self._observers:
            if observer.ops.isdisjoint(pending.operation.ops):
                continue
            if (result := observer.before(pending.operation)) is not None:
                pending.did = pending.did or "done by the harness"
                return Answer(value=result) if result >= 0 else Answer(error=-result)
        return GO_ON

    def forget(self, armed: Armed) -> None:
        if armed in self._rules:
            self._rules.remove(armed)

    def done(self, pending: Pending, delivered: bool) -> None:
        paths = self._relative(pending.operation)
        if delivered and (pending.did or any(not path.startswith("/") for path in paths)):
            self._write(pending.operation, paths, pending.did or "passed")

    def blind(self, error: OSError) -> None:
        if not self._unread:
            self._unread = str(error)
            self.tell(lambda: self._complain(error))

    def broke(self, error: Exception) -> None:
        self.tell(lambda: self._raise(error))

    def _write(self, operation: Operation, paths: Sequence[str], did: str) -> None:
        line: dict[str, Any] = {
            "t": round(time.monotonic(), 6), "program": operation.program, "pid": operation.tid, "op": operation.op,
            "syscall": operation.syscall, "paths": list(paths), "did": did,
        }  # fmt: skip
        if operation.size is not None:
            line["bytes"] = operation.size
        if self._record is None:
            self._record = self._record_path.open("ab")
        self._record.write(msgspec.json.encode(line) + b"\n")

    def _relative(self, operation: Operation) -> tuple[str, ...]:
        return tuple(path.removeprefix(self._root) for path in operation.paths)

    def _who(self, operation: Operation) -> str:
        """The member whose process, or descendant, it is."""
        pid = operation.pid
        for _ in range(FAR):
            if pid in self.known:
                return self.known[pid]
            pid = _parent(pid)
            if pid <= 1:
                break
        return operation.program

    @staticmethod
    def _raise(error: Exception) -> None:
        raise error

    @staticmethod
    def _complain(error: OSError) -> None:
        raise RuntimeError(
            f"the memory of a tapped member cannot be read, so nothing can be said of its files: {error}"
        )


def _touched(when: OnFile, operation: Operation, paths: Sequence[str]) -> tuple[str, str] | None:
    """As what a trigger asks for: operation and path; of two names rather the new one."""
    if when.op not in operation.ops:
        return None
    return next(((when.op, path) for path in reversed(paths) if matches_path(when.path, path)), None)


def _parent(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return int(file.read().rpartition(")")[2].split()[1])
    except OSError:
        return 0
