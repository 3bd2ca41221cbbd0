"""What a target may import: report facts, stand at failpoints, name recovery paths. Standard library only.

Without a harness (`CHAOS_EVENTS` unset) every call returns at once and nothing is opened. With one, events go as
JSON lines over a Unix stream socket, which no network partition cuts. Safe in threads; a forked child opens a
connection of its own at its first call, and must call `hello` again if it is another member.
"""

from __future__ import annotations

import faulthandler
import functools
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_address = os.environ.get("CHAOS_EVENTS", "")
_armed = frozenset(filter(None, os.environ.get("CHAOS_POINTS", "").split(",")))
_member: dict[str, Any] = {"member": os.environ.get("CHAOS_MEMBER", f"pid-{os.getpid()}")}
_lock = threading.RLock()  # guards the stream; never held while waiting for the harness
_point = threading.Lock()  # one thread of a process stands at a failpoint at a time
_stream: socket.socket | None = None
_reader: Any = None
_owner = 0


def _after_fork() -> None:
    # A lock held by another thread of the parent would stay locked for ever in the child.
    global _lock, _point, _stream, _reader
    _lock, _point, _stream, _reader = threading.RLock(), threading.Lock(), None, None


os.register_at_fork(after_in_child=_after_fork)


def listening() -> bool:
    """Whether a harness listens."""
    return bool(_address)


def hello(member: str, *, role: str, node: str | None = None, rank: int | None = None, **more: Any) -> None:
    """Say who this process is; afterwards it is a member that faults can select.

    Also lets the harness ask for the stacks of all threads (SIGUSR1, written to stderr).
    """
    global _member
    _member = {"member": member, "role": role, "node": node, "rank": rank, "pid": os.getpid(), **more}
    if not _address:
        return
    faulthandler.register(signal.SIGUSR1, all_threads=True, chain=False)
    with _lock:
        _connect(again=True)


def emit(kind: str, /, **data: Any) -> None:
    """Record a fact; `kind` is `noun.verb`. Never raises because of the harness: once it is gone, does nothing."""
    if _address:
        _send({"k": kind, "t": time.monotonic(), "d": data})


def point(name: str, /, **data: Any) -> None:
    """A failpoint. Where the experiment has a fault here, wait until the harness lets this thread go on.

    Other threads go on meanwhile, and may emit.
    """
    if name not in _armed:
        return
    with _point:
        if _send({"k": "point", "name": name, "t": time.monotonic(), "d": data}):
            with suppress(OSError, ValueError):
                _reader.readline()


@contextmanager
def recovery_path(name: str) -> Iterator[None]:
    """Name a branch that only runs after a failure: records `path.entered`, and `path.exercised` if it ends well."""
    emit("path.entered", name=name)
    yield
    emit("path.exercised", name=name)


def recovers(name: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """`recovery_path` as a decorator of a function."""

    def wrap(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def inner(*args: P.args, **kwargs: P.kwargs) -> R:
            with recovery_path(name):
                return function(*args, **kwargs)

        return inner

    return wrap


def _connect(again: bool = False) -> None:
    global _stream, _reader, _owner
    if _stream is not None and _owner == os.getpid() and not again:
        return
    _stream, _reader, _owner = None, None, os.getpid()
    stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    stream.connect(_address)
    stream.sendall(_line({"k": "hello", "t": time.monotonic(), "d": _member}))
    _stream, _reader = stream, stream.makefile("rb")


def _send(message: dict[str, Any]) -> bool:
    global _address
    with _lock:
        try:
            _connect()
            assert _stream is not None
            _stream.sendall(_line(message))
            return True
        except OSError:
            _address = ""  # the harness has ended: go on without it
            return False


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps(message, separators=(",", ":"), default=str).encode() + b"\n"
