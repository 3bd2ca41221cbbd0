"""What the kernel tells of a call that waits for our answer, and how it is answered. See seccomp_unotify(2)."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import struct
from typing import NamedTuple

RECEIVE, SEND, STILL_VALID = 0xC0502100, 0xC0182101, 0x40082102
CONTINUE = 1
PAGE = 4096
PIDFD_GETFD = 438  # the same on all processors

_libc = ctypes.CDLL(None, use_errno=True)


class Notice(NamedTuple):
    """A system call that a thread waits in. `tid` is as the harness sees it."""

    id: int
    tid: int
    number: int
    pointer: int  # where in the program
    args: tuple[int, ...]

    @property
    def call(self) -> tuple[int, ...]:
        """What stays the same when a signal interrupts the wait, and the kernel makes the call once more."""
        return (self.number, self.pointer, *self.args)


def receive(listener: int) -> Notice | None:
    """The next one; None when it has just gone (its thread was ended or interrupted)."""
    buffer = bytearray(80)
    try:
        fcntl.ioctl(listener, RECEIVE, buffer)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.EINTR):
            return None
        raise
    identity, tid, _, number, _, pointer, *args = struct.unpack("=QIIiIQ6Q", buffer)
    return Notice(identity, tid, number, pointer, tuple(args))


def answer(listener: int, identity: int, value: int = 0, error: int = 0, *, go_on: bool = False) -> bool:
    """Answer it: go on, fail with `error`, or return `value`. False when nobody waits for the answer any more."""
    reply = struct.pack("=QqiI", identity, value, -error, CONTINUE if go_on else 0)
    try:
        fcntl.ioctl(listener, SEND, bytearray(reply))
    except OSError as reason:
        if reason.errno in (errno.ENOENT, errno.EINPROGRESS):
            return False
        raise
    return True


def still_valid(listener: int, identity: int) -> bool:
    """Whether that call still waits, so that what was read of its process meanwhile is its own."""
    try:
        fcntl.ioctl(listener, STILL_VALID, struct.pack("=Q", identity))
    except OSError:
        return False
    return True


class _Piece(ctypes.Structure):
    """`struct iovec`."""

    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


def memory(pid: int, address: int, length: int) -> bytes:
    """Bytes of another process; fewer where its memory ends before. Raises OSError."""
    if length <= 0:
        return b""
    buffer = ctypes.create_string_buffer(length)
    first = min(length, PAGE - address % PAGE)  # a piece is read as a whole or not at all
    whole = (length - first) // PAGE * PAGE
    sizes = [size for size in (first, whole, length - first - whole) if size]
    places, far = address, []
    for size in sizes:
        far.append(_Piece(places, size))
        places += size
    remote = (_Piece * len(far))(*far)
    local = _Piece(ctypes.addressof(buffer), length)
    got = _libc.process_vm_readv(pid, ctypes.byref(local), 1, remote, len(far), 0)
    if got < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return buffer.raw[:got]


def text(pid: int, address: int) -> str:
    """A path in another process."""
    if not address:
        return ""
    found = memory(pid, address, PAGE).partition(b"\0")[0]
    return os.fsdecode(found)


def descriptor(pid: int, fd: int) -> int:
    """A duplicate of a file descriptor of another process: the same open file. Raises OSError."""
    handle = os.pidfd_open(pid)
    try:
        got = int(_libc.syscall(PIDFD_GETFD, handle, fd, 0))
        if got < 0:
            number = ctypes.get_errno()
            raise OSError(number, f"pidfd_getfd: {os.strerror(number)}")
        return got
    finally:
        os.close(handle)
