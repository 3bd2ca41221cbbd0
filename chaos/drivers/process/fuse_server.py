"""A pass-through file system that lies where it is told to: one process for each member that is fitted with it.

Run by its path with the rights of the harness; needs mfusepy and libfuse 3, and nothing of the harness. It serves the
folder below an open directory to the process that sent its end of /dev/fuse, until that one's mount namespace is gone.
The harness holds the other end of a control socket: one JSON object a line, orders in, answers and hits out.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import socket
import sys
import threading
from typing import TYPE_CHECKING, Any

os.environ["FUSE_LIBRARY_NAME"] = "fuse3"  # else the first one that is found, which may be libfuse 2

if TYPE_CHECKING:
    from chaos.drivers.process import fuse_lies as lies
    from chaos.drivers.process import fuse_pages as pages
    from chaos.drivers.process import kernel
else:

    def _beside(name: str) -> Any:
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), f"{name}.py")
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    kernel, lies, pages = _beside("kernel"), _beside("fuse_lies"), _beside("fuse_pages")

BIG = 1 << 20  # bytes of one request, where the kernel lets us
STAT = ("st_mode", "st_ino", "st_nlink", "st_uid", "st_gid", "st_size", "st_blocks")
STATVFS = (
    "f_bavail", "f_bfree", "f_blocks", "f_bsize", "f_favail", "f_ffree", "f_files", "f_flag", "f_frsize", "f_namemax",
)  # fmt: skip


class View:
    """The operations of FUSE on the folder at `base`, changed by `lies`. Paths begin with a slash."""

    use_ns = True

    def __init__(self, base: str, told: lies.Lies, moved: pages.Pages) -> None:
        self._base, self._lies, self._pages = base, told, moved

    def _at(self, path: str) -> str:
        return self._base + path

    def init_with_config(self, conn: Any, config: Any) -> None:
        """Nothing is cached but content, and that only while a file is open: what a lie says must be asked for."""
        if conn is not None:
            conn.max_write = BIG
        if config is not None:
            config.attr_timeout = config.entry_timeout = config.negative_timeout = 0
            config.use_ino = 1
            config.hard_remove = 1

    def getattr(self, path: str, fh: Any = None) -> dict[str, int]:
        self._lies.operations += 1
        found = self._lies.stat(path, os.lstat, self._at(path))
        return {
            **{name: getattr(found, name) for name in STAT},
            "st_atime": found.st_atime_ns, "st_mtime": found.st_mtime_ns, "st_ctime": found.st_ctime_ns,
        }  # fmt: skip

    def readdir(self, path: str, fh: Any) -> list[tuple[str, dict[str, int], int]]:
        self._lies.operations += 1
        names = [".", "..", *self._lies.names(path, os.listdir, self._at(path))]
        return [(name, {"st_ino": self._number(f"{path}/{name}")}, 0) for name in names]

    def _number(self, path: str) -> int:
        """Of a file; an entry without one is none to the kernel."""
        try:
            return os.lstat(self._at(path)).st_ino
        except OSError:
            return 1

    def _direct(self, path: str, flags: int) -> bool:
        """Whether the kernel is to keep nothing of it: who only writes saves a copy by that, and cannot map it."""
        return flags & os.O_ACCMODE == os.O_WRONLY or self._lies.direct(path)

    def open(self, path: str, fi: Any) -> int:
        self._lies.operations += 1
        self._lies.visible(path)
        # The kernel says where to append; a read-write file may be read back to fill a page.
        fi.fh = os.open(self._at(path), fi.flags & ~(os.O_APPEND | os.O_NOFOLLOW))
        fi.direct_io = self._direct(path, fi.flags)
        return 0

    def create(self, path: str, mode: int, fi: Any) -> int:
        self._lies.operations += 1
        self._lies.changed(path)
        fi.fh = os.open(self._at(path), (fi.flags | os.O_CREAT) & ~(os.O_APPEND | os.O_NOFOLLOW), mode)
        fi.direct_io = self._direct(path, fi.flags)
        return 0

    def read_buf(self, path: str, target: Any, size: int, offset: int, fi: Any) -> int:
        self._lies.operations += 1
        if self._lies.about_reads(path):
            data = self._lies.read(path, os.pread(fi.fh, size, offset), size, offset, fi.fh)
            self._pages.from_memory(target, data)
        else:
            self._pages.from_file(target, fi.fh, size, offset)
        return 0

    def write_buf(self, path: str, source: Any, offset: int, fi: Any) -> int:
        self._lies.operations += 1
        self._lies.changed(path)
        if not self._lies.about_writes(path):
            return self._pages.into_file(source, fi.fh, offset)
        data = self._pages.into_memory(source)
        os.pwrite(fi.fh, self._lies.write(path, data, offset), offset)
        return len(data)

    def truncate(self, path: str, length: int, fh: Any = None) -> None:
        self._lies.changed(path)
        os.truncate(self._at(path), length)

    def flush(self, path: str, fi: Any) -> None:
        os.close(os.dup(fi.fh))

    def fsync(self, path: str, datasync: int, fi: Any) -> None:
        self._lies.operations += 1
        (os.fdatasync if datasync else os.fsync)(fi.fh)

    def release(self, path: str, fi: Any) -> None:
        os.close(fi.fh)

    def fsyncdir(self, path: str, datasync: int, fi: Any) -> None:
        handle = os.open(self._at(path), os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def rename(self, old: str, new: str, flags: int = 0) -> None:
        os.rename(self._at(old), self._at(new))
        self._lies.changed(old, new)

    def unlink(self, path: str) -> None:
        os.unlink(self._at(path))
        self._lies.changed(path)

    def mkdir(self, path: str, mode: int) -> None:
        os.mkdir(self._at(path), mode)
        self._lies.changed(path)

    def rmdir(self, path: str) -> None:
        os.rmdir(self._at(path))
        self._lies.changed(path)

    def mknod(self, path: str, mode: int, dev: int) -> None:
        os.mknod(self._at(path), mode, dev)
        self._lies.changed(path)

    def link(self, target: str, source: str) -> None:
        os.link(self._at(source), self._at(target))
        self._lies.changed(target)

    def symlink(self, target: str, source: str) -> None:
        os.symlink(source, self._at(target))
        self._lies.changed(target)

    def readlink(self, path: str) -> str:
        return os.readlink(self._at(path))

    def chmod(self, path: str, mode: int) -> None:
        os.chmod(self._at(path), mode)

    def chown(self, path: str, uid: int, gid: int) -> None:
        os.chown(self._at(path), uid, gid, follow_symlinks=False)

    def utimens(self, path: str, times: tuple[int, int] | None = None) -> None:
        if times is None:
            os.utime(self._at(path), follow_symlinks=False)
        else:
            os.utime(self._at(path), ns=times, follow_symlinks=False)

    def statfs(self, path: str) -> dict[str, int]:
        found = os.statvfs(self._at(path))
        return {name: getattr(found, name) for name in STATVFS}


def obey(control: socket.socket, told: lies.Lies) -> None:
    """In a thread of its own: orders of the harness, until it closes its end; then this process ends."""
    with control.makefile("rb") as orders:
        for line in orders:
            told.obey(json.loads(line))
    os._exit(0)


def main() -> None:
    control, member = (socket.socket(fileno=int(number)) for number in sys.argv[1:3])
    harness, base, packages = int(sys.argv[3]), sys.argv[4], sys.argv[5]
    kernel.die_with_parent()
    if os.getppid() != harness:
        return
    sys.path.append(packages)
    import mfusepy

    root = os.open(base, os.O_RDONLY | os.O_DIRECTORY)
    _, fds, _, _ = socket.recv_fds(member, 1, 1)
    if not fds:
        return  # the member was never started
    lock = threading.Lock()

    def tell(message: dict[str, Any]) -> None:
        with lock:
            control.sendall(json.dumps(message).encode() + b"\n")

    told = lies.Lies(f"/proc/self/fd/{root}", tell)
    for standing in json.loads(sys.argv[6]):
        told.obey(standing)
    member.sendall(b"!")
    member.close()
    threading.Thread(target=obey, args=(control, told), daemon=True).start()
    operations = type("Served", (View, mfusepy.Operations), {})(
        f"/proc/self/fd/{root}", told, pages.Pages(mfusepy._libfuse)
    )
    ctypes.CDLL(None).umask(0)
    try:
        # One thread is faster by far, as long as none of them has to wait.
        mfusepy.FUSE(
            operations, f"/dev/fd/{fds[0]}", foreground=True, raw_fi=True, fsname="chaos", nothreads=sys.argv[7] == "1"
        )
    except RuntimeError:
        sys.exit(1)


if __name__ == "__main__":
    main()
