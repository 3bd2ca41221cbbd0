"""What a target may import: report facts, stand at failpoints, offer its values to faults, name recovery paths.

Standard library only.

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
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

if TYPE_CHECKING:
    import random

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
_COROUTINE = 0x80  # of the flags of a function's code: `inspect`, which has a name for it, takes long to import
_PATIENCE = 5.0  # seconds for a harness to say which hooks stand; one that knows none of hooks does not answer
_hooks: dict[str, list[_Hook]] = {}  # by site; empty unless a fault is armed: all that `tamper` looks at
_hooking = threading.Lock()  # guards hooks and their stream: once a hook is said to be off, it hits no more
_hook_stream: socket.socket | None = None


def _after_fork() -> None:
    # A lock held by another thread of the parent would stay locked for ever in the child.
    global _lock, _point, _stream, _reader, _hooking, _hook_stream
    _lock, _point, _stream, _reader = threading.RLock(), threading.Lock(), None, None
    _hooking, _hook_stream = threading.Lock(), None
    _hooks.clear()


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


def emit_all(facts: Iterable[tuple[str, float, dict[str, Any]]]) -> None:
    """Record facts in one write: of each its kind, when it happened (`time.monotonic()`), and its data.

    For a program with many of them, that has somebody else hand them over than who must not be kept waiting.
    """
    if _address:
        _send(*({"k": kind, "t": t, "d": data} for kind, t, data in facts))


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


def sites(*names: str) -> None:
    """Say at which sites this process calls `tamper`, after `hello`. Faults can be armed from now on, by a thread."""
    global _hook_stream
    if not _address:
        return
    try:
        stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        stream.connect(_address)
        stream.sendall(_line({"k": "hooks", "d": {"member": _member["member"], "sites": names}}))
        stream.settimeout(_PATIENCE)
        orders = stream.makefile("r", encoding="utf-8")
        first = orders.readline()
        stream.settimeout(None)
    except OSError:
        return
    _hook_stream = stream
    if first:
        for order in json.loads(first)["standing"]:  # a device that is broken stays so for the next process on it
            _obey(order)
        threading.Thread(target=_listen, args=(orders,), name="hooks", daemon=True).start()


def tamper(site: str, data: Any = None, /, **fields: Any) -> None:
    """Offer values to the faults that are armed at `site`; without one, this is one look into an empty dict.

    `data` is a tensor of 32-bit floats (anything with `data_ptr`, `numel`, `element_size`, `dtype`, `is_contiguous`
    and `device`), whose own memory is changed behind the back of its framework, or a bytearray, which may also get
    shorter. `fields` say where this is (`step=…, rank=…`), so that a fault can choose the moment, and are recorded
    with each hit. Never raises because of a fault.
    """
    if site in _hooks:
        _offer(site, data, fields)


@contextmanager
def recovery_path(name: str) -> Iterator[None]:
    """Name a branch that only runs after a failure: records `path.entered`, and `path.exercised` if it ends well."""
    emit("path.entered", name=name)
    yield
    emit("path.exercised", name=name)


def recovers(name: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """`recovery_path` as a decorator of a function; of an `async` one it ends when that does."""

    def wrap(function: Callable[P, R]) -> Callable[P, R]:
        if getattr(getattr(function, "__code__", None), "co_flags", 0) & _COROUTINE:
            return cast("Callable[P, R]", _awaited(name, function))

        @functools.wraps(function)
        def inner(*args: P.args, **kwargs: P.kwargs) -> R:
            with recovery_path(name):
                return function(*args, **kwargs)

        return inner

    return wrap


def _awaited(name: str, function: Callable[P, Any]) -> Callable[P, Any]:
    @functools.wraps(function)
    async def inner(*args: P.args, **kwargs: P.kwargs) -> Any:
        with recovery_path(name):
            return await function(*args, **kwargs)

    return inner


# --- hooks -----------------------------------------------------------------------------------------------------------


class _Hook:
    """A fault that is armed at a site of this process."""

    def __init__(self, number: int, change: dict[str, Any]) -> None:
        import random  # no target without faults pays for it

        self.number, self.change = number, change
        self.left: int | None = change.get("times")
        self.hits = 0
        self.dice: random.Random = random.Random(change.get("seed", 0))

    def wants(self, fields: dict[str, Any]) -> bool:
        """Whether it hits here; the dice are thrown only where it could."""
        change = self.change
        if any(fields.get(name) != value for name, value in change.get("where", {}).items()):
            return False
        if any(fields.get(name, -1) < least for name, least in change.get("since", {}).items()):
            return False
        rate = change.get("rate")
        return rate is None or self.dice.random() < rate

    def hit(self, data: Any) -> dict[str, Any] | None:
        """Change `data`: what was done, or None where it already was as the fault would have it."""
        change = self.change
        match change["do"]:
            case "cut":
                size = len(data)
                del data[int(size * change["keep"]) :]
                return {"before": size, "after": len(data)} if len(data) < size else None
            case "garble":
                return self._garble(data)
            case "scale":
                return _scale(data, change["factor"])
            case _:
                return self._word(_words(data))

    def _garble(self, data: Any) -> dict[str, Any] | None:
        import zlib

        before, size = zlib.crc32(data), max(int(len(data) * self.change["share"]), 1)
        start = int((len(data) - size) * self.change.get("at", 0.0))
        data[start : start + size] = self.dice.randbytes(size)
        after = zlib.crc32(data)
        return {"offset": start, "bytes": size, "before": before, "after": after} if before != after else None

    def _word(self, words: Any) -> dict[str, Any] | None:
        """One 32-bit float: a bit flipped, a bit that is stuck, or all of it set."""
        change = self.change
        index = min(int(len(words) * change.get("at", 0.5)), len(words) - 1)
        if index < 0:
            return None
        before = int(words[index])
        match change["do"]:
            case "flip":
                after = before ^ 1 << change["bit"]
            case "stick":
                mask = 1 << change["bit"]
                after = before | mask if change["value"] else before & ~mask
            case "set":
                after = change["word"]
            case other:
                raise ValueError(f"nobody knows how to {other}")
        if after == before:
            return None
        words[index] = after
        return {
            "index": index, "of": len(words), "before": f"{before:08x}", "after": f"{int(words[index]):08x}",
            "was": repr(_float(before)), "now": repr(_float(after)),
        }  # fmt: skip


def _offer(site: str, data: Any, fields: dict[str, Any]) -> None:
    with _hooking:
        wanted = [hook for hook in _hooks.get(site, ()) if hook.wants(fields)]
        for hook in wanted:
            if hook.change["do"] != "delay":
                _hit(hook, site, data, fields)
    for hook in wanted:
        if hook.change["do"] == "delay":  # without the lock: a heal need not wait for it
            began = time.monotonic()
            time.sleep(hook.change["seconds"])
            with _hooking:
                _report(hook, site, fields, {"seconds": round(time.monotonic() - began, 6)})


def _hit(hook: _Hook, site: str, data: Any, fields: dict[str, Any]) -> None:
    try:
        done = hook.hit(data)
    except (TypeError, ValueError, AttributeError, KeyError, IndexError, BufferError) as error:
        _drop(hook.number)
        _tell("refused", id=hook.number, reason=f"{type(error).__name__}: {error}")
    else:
        if done is not None:
            _report(hook, site, fields, done)


def _report(hook: _Hook, site: str, fields: dict[str, Any], done: dict[str, Any]) -> None:
    hook.hits += 1
    if hook.left is not None and hook.hits >= hook.left:
        _drop(hook.number)
    _tell("hit", id=hook.number, site=site, do=hook.change["do"], where=fields, **done)


def _listen(orders: Iterable[str]) -> None:
    with suppress(OSError, ValueError):
        for line in orders:
            _obey(json.loads(line))
    with _hooking:
        _hooks.clear()  # a harness that has gone leaves no fault


def _obey(order: dict[str, Any]) -> None:
    number = order["id"]
    with _hooking:
        if order["op"] == "arm":
            _hooks.setdefault(order["site"], []).append(_Hook(number, order["change"]))
        else:
            _drop(number)
        _tell(f"{order['op']}ed", id=number)


def _drop(number: int) -> None:
    for site, hooks in list(_hooks.items()):
        left = [hook for hook in hooks if hook.number != number]
        if left:
            _hooks[site] = left
        else:
            del _hooks[site]  # so that `tamper` finds nothing


def _tell(kind: str, **data: Any) -> None:
    with suppress(OSError):
        assert _hook_stream is not None
        _hook_stream.sendall(_line({"k": kind, "t": time.monotonic(), "d": data}))


def _words(data: Any) -> Any:
    """The memory of `data` as 32-bit words."""
    if isinstance(data, bytearray | memoryview):
        return memoryview(data).cast("B").cast("I")
    if data.element_size() != 4 or "float32" not in str(data.dtype):
        raise TypeError(f"32-bit floats are needed, not {data.dtype}")
    if not data.is_contiguous():
        raise TypeError("its memory is not contiguous")
    if str(data.device).partition(":")[0] != "cpu":
        return _Elements(data)
    import ctypes

    return (ctypes.c_uint32 * data.numel()).from_address(data.data_ptr())


class _Elements:
    """The elements of a tensor that lies on a device, as 32-bit words; one copy of four bytes for each access."""

    def __init__(self, data: Any) -> None:
        self._flat = data.data.view(-1)  # `data`: the framework's bookkeeping of changes does not see it

    def __len__(self) -> int:
        return int(self._flat.numel())

    def __getitem__(self, index: int) -> int:
        return _word(self._flat[index].item())

    def __setitem__(self, index: int, word: int) -> None:
        self._flat[index] = _float(word)


def _scale(data: Any, factor: float) -> dict[str, Any] | None:
    words = _words(data)
    changed = 0
    largest = 0.0
    for index in range(len(words)):
        value = _float(int(words[index]))
        scaled = max(min(value * factor, 3e38), -3e38)
        if scaled != value:
            words[index] = _word(scaled)
            changed += 1
            largest = max(largest, abs(scaled))
    return {"elements": changed, "of": len(words), "factor": factor, "largest": repr(largest)} if changed else None


def _float(word: int) -> float:
    value: float = struct.unpack("<f", struct.pack("<I", word))[0]
    return value


def _word(value: float) -> int:
    word: int = struct.unpack("<I", struct.pack("<f", value))[0]
    return word


# --- the stream of events --------------------------------------------------------------------------------------------


def _connect(again: bool = False) -> None:
    global _stream, _reader, _owner
    if _stream is not None and _owner == os.getpid() and not again:
        return
    _stream, _reader, _owner = None, None, os.getpid()
    stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    stream.connect(_address)
    stream.sendall(_line({"k": "hello", "t": time.monotonic(), "d": _member}))
    _stream, _reader = stream, stream.makefile("rb")


def _send(*messages: dict[str, Any]) -> bool:
    global _address
    with _lock:
        try:
            _connect()
            assert _stream is not None
            _stream.sendall(b"".join(map(_line, messages)))
            return True
        except OSError:
            _address = ""  # the harness has ended: go on without it
            return False


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps(message, separators=(",", ":"), default=str).encode() + b"\n"
