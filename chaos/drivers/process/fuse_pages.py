"""Content that libfuse moves between the kernel and a file by itself, without a copy through Python. Standard library
only; mfusepy passes the pointers on, and does not know what is behind them."""

from __future__ import annotations

import ctypes
import os
from typing import Any

IS_FD, AT_POSITION = 2, 4


class Buffer(ctypes.Structure):
    """`struct fuse_buf`; libfuse 3.17 has added a field at its end."""

    _fields_ = (
        ("size", ctypes.c_size_t),
        ("flags", ctypes.c_int),
        ("mem", ctypes.c_void_p),
        ("fd", ctypes.c_int),
        ("pos", ctypes.c_int64),
        ("later", ctypes.c_size_t * 2),
    )


class Buffers(ctypes.Structure):
    """`struct fuse_bufvec` with one buffer."""

    _fields_ = (
        ("count", ctypes.c_size_t),
        ("index", ctypes.c_size_t),
        ("offset", ctypes.c_size_t),
        ("buffer", Buffer),
    )


class Pages:
    """Of one libfuse."""

    def __init__(self, libfuse: Any) -> None:
        self._size, self._copy = libfuse.fuse_buf_size, libfuse.fuse_buf_copy
        self._size.restype, self._copy.restype = ctypes.c_size_t, ctypes.c_ssize_t
        self._malloc = ctypes.CDLL(None).malloc
        self._malloc.restype, self._malloc.argtypes = ctypes.c_void_p, (ctypes.c_size_t,)

    def into_file(self, source: Any, fd: int, offset: int) -> int:
        """Write what the kernel hands over; how much it was. Raises OSError."""
        size = self._size(source)
        return self._copied(Buffers(1, 0, 0, Buffer(size, IS_FD | AT_POSITION, None, fd, offset)), source)

    def into_memory(self, source: Any) -> bytes:
        """What the kernel hands over. Raises OSError."""
        size = self._size(source)
        memory = ctypes.create_string_buffer(size)
        self._copied(Buffers(1, 0, 0, Buffer(size, 0, ctypes.cast(memory, ctypes.c_void_p))), source)
        return memory.raw

    def from_file(self, target: Any, fd: int, size: int, offset: int) -> None:
        """Have the kernel take it from the file."""
        self._give(target, Buffer(size, IS_FD | AT_POSITION, None, fd, offset))

    def from_memory(self, target: Any, data: bytes) -> None:
        """Have the kernel take this."""
        memory = self._malloc(max(len(data), 1))
        ctypes.memmove(memory, data, len(data))
        self._give(target, Buffer(len(data), 0, memory))

    def _give(self, target: Any, buffer: Buffer) -> None:
        """libfuse frees what it is given."""
        address = self._malloc(ctypes.sizeof(Buffers))
        given = Buffers(1, 0, 0, buffer)
        ctypes.memmove(address, ctypes.byref(given), ctypes.sizeof(Buffers))
        ctypes.cast(target, ctypes.POINTER(ctypes.c_void_p))[0] = address

    def _copied(self, target: Buffers, source: Any) -> int:
        moved: int = self._copy(ctypes.byref(target), source, 0)
        if moved < 0:
            raise OSError(-moved, os.strerror(-moved))
        return moved
