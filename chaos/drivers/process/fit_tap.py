"""In the member's own process, before its program: hand its file operations to the harness. See `fittings/tap`.

Standard library only; needs no rights. The filter goes on to all threads and children, and cannot be taken off.
"""

from __future__ import annotations

import array  # noqa: F401 - send_fds imports it, and by then nothing can be imported until somebody listens
import ctypes
import os
import socket
from typing import Any

PR_SET_NO_NEW_PRIVS = 38
SECCOMP_SET_MODE_FILTER, NEW_LISTENER = 1, 8


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
    listener = libc.syscall(seccomp, SECCOMP_SET_MODE_FILTER, NEW_LISTENER, ctypes.byref(wanted))
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
