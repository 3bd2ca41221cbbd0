"""What Linux offers and Python does not: namespaces, mounts, the death of a parent. Standard library only."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_PRIVATE = 2, 4, 8, 4096, 16384, 1 << 18
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE = 47, 2
CAPABILITY_VERSION = 0x20080522

libc = ctypes.CDLL(None, use_errno=True)


class Refused(RuntimeError):
    """The kernel does not give us the lab; the message is for the user."""


def syscall(name: str, *arguments: Any) -> None:
    """Call the C library; raises OSError."""
    if getattr(libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    words = [w.encode() if w is not None else None for w in (source, target, kind, data)]
    syscall("mount", words[0], words[1], words[2], ctypes.c_ulong(flags), words[3])


def die_with_parent() -> None:
    """SIGKILL for this process as soon as its parent ends. The caller must then look whether it has ended already."""
    syscall("prctl", PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def keep_rights() -> None:
    """Before a program is executed: it shall have the rights that this process has in its namespaces. For root it
    has them anyway; all others lose theirs at that moment, unless they are ambient."""
    if os.geteuid() == 0:
        return
    rights = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable of the lower half, then of the upper
    syscall("capget", _rights_header(), rights)
    rights[2], rights[5] = rights[1], rights[4]
    syscall("capset", _rights_header(), rights)
    for number in range(64):
        if (rights[1] | rights[4] << 32) >> number & 1:
            syscall("prctl", PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, number, 0, 0)


def drop_rights() -> None:
    """As an executed program has them: none, unless it is root's."""
    if os.geteuid() != 0:
        syscall("capset", _rights_header(), (ctypes.c_uint32 * 6)())


def _rights_header() -> Any:
    return (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)


def enter_user_namespace(also: int = 0) -> None:
    """Go into a user namespace of our own, in which we have all rights, and with these flags into others of its."""
    with map_ids():
        try:
            syscall("unshare", CLONE_NEWUSER | also)
        except OSError as error:
            raise Refused(f"user namespaces are closed: {error.strerror}") from error


@contextmanager
def map_ids() -> Iterator[None]:
    """Around entering a user namespace: everybody stays who he is. So members run as the same user as outside, and
    hold no special rights once they are executed."""
    user, group = os.geteuid(), os.getegid()
    if user == 0:
        with map_everyone() as mapped:
            yield
        if mapped():
            return
    else:
        yield
    write("/proc/self/setgroups", "deny")
    write("/proc/self/uid_map", f"{user} {user} 1")
    write("/proc/self/gid_map", f"{group} {group} 1")


@contextmanager
def map_everyone() -> Iterator[Callable[[], bool]]:
    """For root, who keeps rights over everybody's files: only a process that stays outside may say so, so a child
    does. Whether it was let is known after the block (in a container without that right it is not)."""
    me, (entered, enter) = os.getpid(), os.pipe()
    with open("/proc/self/uid_map") as file:
        known = "".join(f"{first} {first} {count}\n" for first, _, count in map(str.split, file))
    child = os.fork()
    if child == 0:
        os.close(enter)
        os.read(entered, 1)
        with suppress(Refused):
            write(f"/proc/{me}/uid_map", known)
            write(f"/proc/{me}/gid_map", known)
            os._exit(0)
        os._exit(1)
    os.close(entered)
    try:
        yield lambda: os.waitpid(child, 0)[1] == 0
    finally:
        os.close(enter)


def write(path: str, text: str) -> None:
    try:
        with open(path, "w") as file:
            file.write(text)
    except OSError as error:
        raise Refused(f"{path} cannot be written: {error.strerror}") from error


def children() -> list[int]:
    """Our direct children, from /proc (the file `children` is not in every kernel)."""
    found, me = [], str(os.getpid())
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError), open(f"/proc/{name}/stat") as file:
            if file.read().rpartition(")")[2].split()[1] == me:
                found.append(int(name))
    return found
