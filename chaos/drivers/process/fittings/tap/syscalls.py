"""Which system calls are file operations, by their numbers on this machine, and where their arguments say of what.

Not seen by anybody who watches system calls: what is done through io_uring, and what is stored in memory that a file is
mapped to.
"""

from __future__ import annotations

import os
import platform
from typing import NamedTuple

O_TMPFILE = 0o20200000


class Call(NamedTuple):
    """A system call as a file operation; the numbers are places of arguments."""

    op: str
    x86: int | None
    arm: int | None
    fd: int | None = None  # the file that is worked on
    at: tuple[tuple[int | None, int], ...] = ()  # names: (folder or None, path)
    flags: int | None = None  # of an open, of an unlinkat
    size: int | None = None
    offset: int | None = None
    vector: int | None = None  # where pieces of memory are listed; else memory is argument 1


# sendfile and copy_file_range count as writes of the file they write to.
CALLS: dict[str, Call] = {
    "open": Call("open", 2, None, at=((None, 0),), flags=1),
    "creat": Call("open", 85, None, at=((None, 0),)),
    "openat": Call("open", 257, 56, at=((0, 1),), flags=2),
    "openat2": Call("open", 437, 437, at=((0, 1),)),
    "mknod": Call("create", 133, None, at=((None, 0),)),
    "mknodat": Call("create", 259, 33, at=((0, 1),)),
    "read": Call("read", 0, 63, fd=0, size=2),
    "pread64": Call("read", 17, 67, fd=0, size=2, offset=3),
    "readv": Call("read", 19, 65, fd=0, vector=1),
    "preadv": Call("read", 295, 69, fd=0, vector=1, offset=3),
    "preadv2": Call("read", 327, 286, fd=0, vector=1, offset=3),
    "write": Call("write", 1, 64, fd=0, size=2),
    "pwrite64": Call("write", 18, 68, fd=0, size=2, offset=3),
    "writev": Call("write", 20, 66, fd=0, vector=1),
    "pwritev": Call("write", 296, 70, fd=0, vector=1, offset=3),
    "pwritev2": Call("write", 328, 287, fd=0, vector=1, offset=3),
    "sendfile": Call("write", 40, 71, fd=0, size=3),
    "copy_file_range": Call("write", 326, 285, fd=2, size=4),
    "fallocate": Call("write", 285, 47, fd=0, size=3, offset=2),
    "fsync": Call("fsync", 74, 82, fd=0),
    "fdatasync": Call("fsync", 75, 83, fd=0),
    "rename": Call("rename", 82, None, at=((None, 0), (None, 1))),
    "renameat": Call("rename", 264, 38, at=((0, 1), (2, 3))),
    "renameat2": Call("rename", 316, 276, at=((0, 1), (2, 3))),
    "unlink": Call("unlink", 87, None, at=((None, 0),)),
    "unlinkat": Call("unlink", 263, 35, at=((0, 1),), flags=2),
    "rmdir": Call("rmdir", 84, None, at=((None, 0),)),
    "truncate": Call("truncate", 76, 45, at=((None, 0),), size=1),
    "ftruncate": Call("truncate", 77, 46, fd=0, size=1),
    "mkdir": Call("mkdir", 83, None, at=((None, 0),)),
    "mkdirat": Call("mkdir", 258, 34, at=((0, 1),)),
    "link": Call("link", 86, None, at=((None, 0), (None, 1))),
    "linkat": Call("link", 265, 37, at=((0, 1), (2, 3))),
    "symlink": Call("link", 88, None, at=((None, 1),)),
    "symlinkat": Call("link", 266, 36, at=((1, 2),)),
    "stat": Call("stat", 4, None, at=((None, 0),)),
    "lstat": Call("stat", 6, None, at=((None, 0),)),
    "fstat": Call("stat", 5, 80, fd=0),
    "newfstatat": Call("stat", 262, 79, at=((0, 1),)),
    "statx": Call("stat", 332, 291, at=((0, 1),)),
    "access": Call("stat", 21, None, at=((None, 0),)),
    "faccessat": Call("stat", 269, 48, at=((0, 1),)),
    "faccessat2": Call("stat", 439, 439, at=((0, 1),)),
}
AT_REMOVEDIR = 0x200
# What `create`, `rmdir` and `unlink` need beyond the calls that are always that.
ALSO = {"create": ("open",), "rmdir": ("unlinkat",)}


class Machine(NamedTuple):
    """How this processor names what the filter sees."""

    audit: int  # of `struct seccomp_data`
    seccomp: int  # system calls that the C library has no function for
    column: str


MACHINES = {"x86_64": Machine(0xC000003E, 317, "x86"), "aarch64": Machine(0xC00000B7, 277, "arm")}


def machine() -> Machine | None:
    """This one; None where the numbers are not known."""
    return MACHINES.get(platform.machine())


def numbers(ops: frozenset[str], column: str) -> dict[int, str]:
    """The system calls that may be one of these operations: name by number."""
    wanted = {
        name
        for name, call in CALLS.items()
        if call.op in ops or call.op in {o for op in ops for o in ALSO.get(op, ())} or name in _also(ops)
    }
    found = {getattr(CALLS[name], column): name for name in CALLS if name in wanted}
    return {number: name for number, name in found.items() if number is not None}


def _also(ops: frozenset[str]) -> set[str]:
    return {name for op in ops for name in ALSO.get(op, ())}


def only_creating(ops: frozenset[str]) -> bool:
    """Whether of all opens only those that may make a file are of interest: the filter can tell."""
    return "create" in ops and "open" not in ops


def creates(flags: int) -> bool:
    """Whether an open with these flags may make a file of that name."""
    return bool(flags & os.O_CREAT)
