"""A system call that is about to happen, as a file operation: what, on which paths, by whom."""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property

from chaos.drivers.process.fittings.tap.notice import Notice, descriptor, memory, text
from chaos.drivers.process.fittings.tap.syscalls import AT_REMOVEDIR, CALLS, O_TMPFILE, creates

HERE = -100  # AT_FDCWD
COPIES = {"sendfile": (1, 2), "copy_file_range": (0, 1)}  # whose bytes come from a file: which, and where it begins
MOST_PIECES = 1024  # of memory in one call, as the kernel has it


class Operation:
    """One file operation of a thread that waits for our answer: it has not happened yet."""

    def __init__(self, notice: Notice, syscall: str, program: str) -> None:
        self.notice = notice
        self.tid = notice.tid
        self.args = notice.args
        self.syscall = syscall
        self.program = program  # the member that the harness started, whose process or descendant it is
        self._call = CALLS[syscall]
        self.fd = None if self._call.fd is None else _int(self.args[self._call.fd])
        self.flags = self._flags()
        self.paths = self._paths()  # absolute, links in folders followed; of a rename and a link: the old and the new
        self.ops = self._ops()  # what it is, the plainest word last: an open that makes a file is `create` and `open`

    @property
    def op(self) -> str:
        return self.ops[0]

    @property
    def path(self) -> str:
        """The name that it is about; empty for what has none, such as a socket."""
        return self.paths[-1] if self.paths else ""

    @cached_property
    def pid(self) -> int:
        """The process that the thread belongs to."""
        with suppress(OSError, ValueError, IndexError), open(f"/proc/{self.tid}/status") as file:
            return int(file.read().partition("\nTgid:")[2].split(maxsplit=1)[0])
        return self.tid

    @cached_property
    def size(self) -> int | None:
        """Bytes that a read or write is about, the length that a truncate asks for."""
        if self._call.vector is not None:
            return sum(length for _, length in self._pieces())
        return None if self._call.size is None else self.args[self._call.size]

    @property
    def appends(self) -> bool:
        """Whether it writes at the end of the file, wherever that is."""
        return bool(self._opened() & os.O_APPEND)

    @property
    def placed(self) -> bool:
        """Whether the call itself says where, and leaves the offset of the open file alone."""
        return self._call.offset is not None and _signed(self.args[self._call.offset]) >= 0

    def offset(self) -> int:
        """Where a read or write begins. Raises OSError when the process has gone."""
        if self.placed:
            assert self._call.offset is not None
            return self.args[self._call.offset]
        if self.syscall == "copy_file_range" and self.args[3]:
            return int.from_bytes(memory(self.tid, self.args[3], 8), "little")
        if self.appends and self._call.op == "write":
            return os.stat(f"/proc/{self.tid}/fd/{self.fd}").st_size
        with open(f"/proc/{self.tid}/fdinfo/{self.fd}") as file:
            return int(file.read().partition("pos:")[2].split(maxsplit=1)[0])

    @property
    def carries(self) -> bool:
        """Whether a write puts bytes into the file that can be had before it happens: then `data()` has them."""
        return self.syscall != "fallocate"

    def data(self, most: int | None = None) -> bytes:
        """What a write would put into the file, its first `most` bytes. Raises OSError when the process has gone."""
        if self.syscall in COPIES:
            return self._copied(*COPIES[self.syscall], most)
        pieces = [(self.args[1], self.size or 0)] if self._call.vector is None else self._pieces()
        found = bytearray()
        for address, length in pieces:
            left = length if most is None else min(length, most - len(found))
            if left <= 0:
                break
            found += memory(self.tid, address, left)
        return bytes(found)

    @contextmanager
    def file(self) -> Iterator[int]:
        """A file descriptor of ours for the open file that it works on: same offset, same flags. Raises OSError."""
        assert self.fd is not None
        mine = descriptor(self.pid, self.fd)
        try:
            yield mine
        finally:
            os.close(mine)

    def reach(self, path: str | None = None) -> str:
        """The path by which we get at what the member sees there, in its own mounts."""
        return f"/proc/{self.tid}/root{path or self.path}"

    def _copied(self, source: int, begins: int, most: int | None) -> bytes:
        """What a copy within the kernel would take from its other file; nothing where that is no regular one."""
        size = self.size or 0
        mine = descriptor(self.pid, _int(self.args[source]))
        try:
            if not stat.S_ISREG(os.fstat(mine).st_mode):
                return b""
            place = self.args[begins]
            offset = int.from_bytes(memory(self.tid, place, 8), "little") if place else os.lseek(mine, 0, os.SEEK_CUR)
            return os.pread(mine, size if most is None else min(size, most), offset)
        finally:
            os.close(mine)

    def _pieces(self) -> list[tuple[int, int]]:
        count = min(self.args[2], MOST_PIECES)
        listed = memory(self.tid, self.args[1], 16 * count)
        return [struct.unpack_from("=QQ", listed, 16 * i) for i in range(len(listed) // 16)]

    def _opened(self) -> int:
        with suppress(OSError, ValueError, IndexError), open(f"/proc/{self.tid}/fdinfo/{self.fd}") as file:
            return int(file.read().partition("flags:")[2].split(maxsplit=1)[0], 8)
        return 0

    def _flags(self) -> int:
        if self.syscall == "openat2":
            return int.from_bytes(memory(self.tid, self.args[2], 8), "little")
        if self.syscall == "creat":
            return os.O_CREAT | os.O_WRONLY | os.O_TRUNC
        return 0 if self._call.flags is None else self.args[self._call.flags]

    def _paths(self) -> tuple[str, ...]:
        if self.fd is not None:
            name = os.readlink(f"/proc/{self.tid}/fd/{self.fd}")
            return (name,) if name.startswith("/") else ()
        return tuple(self._named(folder, place) for folder, place in self._call.at)

    def _named(self, folder: int | None, place: int) -> str:
        name = text(self.tid, self.args[place])
        if not name.startswith("/"):
            where = HERE if folder is None else _int(self.args[folder])
            base = os.readlink(f"/proc/{self.tid}/cwd" if where == HERE else f"/proc/{self.tid}/fd/{where}")
            if not name:  # AT_EMPTY_PATH: the folder, or file, itself
                return base
            name = f"{base}/{name}"
        head, tail = os.path.split(name.rstrip("/") or "/")
        if tail in ("..", ".", ""):
            return os.path.realpath(name)
        return os.path.join(os.path.realpath(head), tail)

    def _ops(self) -> tuple[str, ...]:
        op = self._call.op
        if op == "unlink" and self.flags & AT_REMOVEDIR:
            return ("rmdir",)
        if op != "open" or not creates(self.flags) or self.flags & O_TMPFILE == O_TMPFILE:
            return (op,)
        try:
            os.lstat(self.reach())
        except FileNotFoundError:
            return ("create", "open")
        except OSError:
            pass
        return ("open",)

    def regular(self) -> bool:
        """Whether the open file that it works on is a regular one. Raises OSError when the process has gone."""
        return stat.S_ISREG(os.stat(f"/proc/{self.tid}/fd/{self.fd}").st_mode)


def _int(argument: int) -> int:
    """The lower half of an argument, with its sign: file descriptors are C ints."""
    low = argument & 0xFFFFFFFF
    return low - (1 << 32) if low >= 1 << 31 else low


def _signed(argument: int) -> int:
    return argument - (1 << 64) if argument >= 1 << 63 else argument
