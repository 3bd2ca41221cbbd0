"""In the member's own process, before its program: hand its file operations to the harness. See `fittings/tap`.

Standard library only; needs no rights. The filter goes on to all threads and children, and cannot be taken off. Run as
a program with `--try`: says whether this machine can, and why not.
"""

from __future__ import annotations

import array  # noqa: F401 - send_fds imports it, and by then nothing can be imported until somebody listens
import ctypes
import errno
import fcntl
import os
import platform
import socket
import struct
import sys
import threading
from typing import Any

PR_SET_NO_NEW_PRIVS = 38
SECCOMP_SET_MODE_FILTER, NEW_LISTENER = 1, 8
SPEC_ALLOW = 4  # no mitigations that slow the whole program down: it is not a sandbox
# To try it: the numbers of mkdir and of seccomp.
TRIED = {"x86_64": (83, 317), "aarch64": (34, 277)}
RECEIVE, SEND = 0xC0502100, 0xC0182101
NOWHERE = "/proc/chaos-probe"  # no folder can be made there, so nothing is left where the filter does nothing


class Program(ctypes.Structure):
    """`struct sock_fprog`."""

    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_char_p)]


def install(code: bytes, seccomp: int) -> int:
    """Filter this thread, and all that it starts; the file descriptor at which its calls are heard. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(code, len(code))
    wanted = Program(len(code) // 8, ctypes.cast(buffer, ctypes.c_char_p))
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"no_new_privs: {os.strerror(number)}")
    listener = libc.syscall(seccomp, SECCOMP_SET_MODE_FILTER, NEW_LISTENER | SPEC_ALLOW, ctypes.byref(wanted))
    if listener < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"seccomp user notification: {os.strerror(number)}")
    return int(listener)


def dress(options: dict[str, Any], fds: list[int]) -> None:
    """Hand the listener to the harness over the socket that came with the request."""
    with socket.socket(fileno=os.dup(fds[0])) as channel:
        listener = install(bytes.fromhex(options["code"]), options["seccomp"])
        socket.send_fds(channel, [b"!"], [listener])
        os.close(listener)


def missing() -> str:
    """Have a thread of ours make a folder, and refuse it: what is missing, empty when nothing is."""
    known = TRIED.get(platform.machine())
    if known is None:
        return f"the system calls of {platform.machine()} are not known here, only those of {' and '.join(TRIED)}"
    mkdir, seccomp = known
    lines = [(0x20, 0, 0, 0), (0x15, 0, 1, mkdir), (0x06, 0, 0, 0x7FC00000), (0x06, 0, 0, 0x7FFF0000)]
    code = b"".join(struct.pack("=HBBI", *line) for line in lines)
    heard: list[int] = []
    said: list[int] = []
    ready = threading.Event()

    def try_it() -> None:  # the filter is that of this thread alone, and goes with it
        try:
            heard.append(install(code, seccomp))
        except OSError as error:
            said.append(error.errno or 0)
        ready.set()
        if heard:
            try:
                os.mkdir(NOWHERE)
            except OSError as error:
                said.append(error.errno or 0)

    thread = threading.Thread(target=try_it, name="tap-probe", daemon=True)
    thread.start()
    ready.wait()
    if not heard:
        why = "somebody listens to this process already" if said[0] == errno.EBUSY else os.strerror(said[0])
        return f"seccomp user notification is refused: {why}"
    try:
        notice = bytearray(80)
        fcntl.ioctl(heard[0], RECEIVE, notice)
        (identity,) = struct.unpack_from("=Q", notice)
        fcntl.ioctl(heard[0], SEND, bytearray(struct.pack("=QqiI", identity, 0, -errno.EDQUOT, 0)))
        thread.join()
    except OSError as error:
        return f"seccomp user notification does not answer: {error}"
    finally:
        os.close(heard[0])
    return "" if said == [errno.EDQUOT] else f"seccomp user notification is there and has no effect: {said}"


if __name__ == "__main__":
    lacks = missing()
    print(lacks or "seccomp user notification, for any user")
    sys.exit(bool(lacks))
