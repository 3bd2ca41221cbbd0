"""A disk of a run: an ext4 file system on a loop image that can lose power as a machine does.

Run by its path in an interpreter of its own, with the rights of whoever runs the harness (`fittings/disk.py` does); it
enters the lab's mount namespace and nothing else of it, so that mounts end with the lab and the right to cut a file
system off from its disk (CAP_SYS_ADMIN of the machine) stays. The harness holds the other end of a socket; when that is
closed, or the harness dies, this ends. The loop device goes by itself with the last mount. Standard library only.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import importlib.util
import json
import os
import socket
import stat
import struct
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chaos.drivers.process import kernel
else:
    spec = importlib.util.spec_from_file_location("kernel", os.path.join(os.path.dirname(__file__), "kernel.py"))
    kernel = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(kernel)

LOOP_CTL_GET_FREE, LOOP_CONFIGURE, LO_FLAGS_AUTOCLEAR = 0x4C82, 0x4C0A, 4
FS_IOC_SHUTDOWN, NO_LOG_FLUSH = 0x8004587D, 2
MS_NOATIME = 1024
# The journal writes only what a program asks for; no heuristic of ext4 saves a program that does not sync.
OPTIONS = "commit=3600,noauto_da_alloc,errors=continue"
BUSY_FOR = 3.0  # seconds that the dead may take to let go of their files
AGAIN = 0.002


class Disk:
    """One image, mounted at one folder."""

    def __init__(self, image: str, folder: str) -> None:
        self.image, self.folder = image, folder
        subprocess.run(
            ["mkfs.ext4", "-q", "-F", "-E", f"nodiscard,root_owner={os.geteuid()}:{os.getegid()}", image],
            check=True, capture_output=True,
            env={**os.environ, "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"},
        )  # fmt: skip
        self.mount()
        os.rmdir(os.path.join(folder, "lost+found"))
        os.sync()

    def mount(self) -> None:
        """On a loop device of its own, which is free again once nothing is mounted from it."""
        device, holder = loop(self.image)
        try:
            kernel.mount(device, self.folder, "ext4", MS_NOATIME | kernel.MS_NOSUID | kernel.MS_NODEV, OPTIONS)
        finally:
            os.close(holder)

    def cut(self) -> dict[str, Any]:
        """Lose power, and come back as after a boot: the journal replayed, the rest gone."""
        self.wait_unused(time.monotonic() + BUSY_FOR)
        before = listing(self.folder)
        canary = os.path.join(self.folder, f".unsynced-{os.getpid()}")
        with open(canary, "wb") as file:
            file.write(bytes(4096))
        began = time.monotonic()
        handle = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.ioctl(handle, FS_IOC_SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
            refused = refuses(self.folder)
        finally:
            os.close(handle)
        self.unmount(began + BUSY_FOR)
        self.mount()
        seconds = time.monotonic() - began
        if refuses(self.folder):
            raise OSError(errno.EBUSY, f"{self.folder} is still used by somebody, so that its file system is not new")
        if not refused or os.path.exists(canary):
            raise OSError(errno.EIO, f"{self.folder} did not lose what was not synced")
        proof = {"refused": refused, "unsynced_file": {"bytes": 4096, "left": "nothing"}}
        return {"seconds": round(seconds, 6), "proof": proof, "before": before, "after": listing(self.folder)}

    def wait_unused(self, deadline: float) -> None:
        """Until nobody in the lab uses it: who lives on would lose his disk for good."""
        while found := users(self.folder):
            if time.monotonic() > deadline:
                raise OSError(errno.EBUSY, f"{self.folder} is used by {found}")
            time.sleep(AGAIN)

    def unmount(self, deadline: float) -> None:
        while True:
            try:
                kernel.syscall("umount2", self.folder.encode(), 0)
                return
            except OSError as error:
                if error.errno != errno.EBUSY or time.monotonic() > deadline:
                    raise
            time.sleep(AGAIN)


def loop(image: str) -> tuple[str, int]:
    """A loop device over the image, and an open file that holds it until it is mounted."""
    with open(image, "r+b") as file, open("/dev/loop-control", "r+b", buffering=0) as control:
        for _ in range(64):
            number = fcntl.ioctl(control, LOOP_CTL_GET_FREE)
            device = f"/dev/loop{number}"
            if not os.path.exists(device):  # a container has those of the moment it was started
                os.mknod(device, stat.S_IFBLK | 0o600, os.makedev(7, number))
            holder = os.open(device, os.O_RDWR | os.O_CLOEXEC)
            # struct loop_config: file, block size, loop_info64 (of which only the flags matter), reserved.
            config = struct.pack("=II52xI64s112x64x", file.fileno(), 0, LO_FLAGS_AUTOCLEAR, image.encode()[:63])
            try:
                fcntl.ioctl(holder, LOOP_CONFIGURE, config)
                return device, holder
            except OSError as error:
                os.close(holder)
                if error.errno != errno.EBUSY:  # somebody else was faster
                    raise
    raise OSError(errno.EBUSY, "no free loop device")


def refuses(folder: str) -> str:
    """How the file system refuses a new file; empty when it does not."""
    probe = os.path.join(folder, ".chaos-probe")
    try:
        os.close(os.open(probe, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600))
        os.unlink(probe)
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, str(error.errno))
    return ""


def listing(folder: str) -> dict[str, list[Any]]:
    """Every entry below: size and digest of a file, nothing of a folder."""
    found: dict[str, list[Any]] = {}
    for place, folders, files in os.walk(folder):
        for name in folders:
            found[os.path.relpath(os.path.join(place, name), folder) + "/"] = []
        for name in files:
            path = os.path.join(place, name)
            if stat.S_ISREG(os.lstat(path).st_mode):
                with open(path, "rb") as file:
                    content = hashlib.file_digest(file, "blake2b")
                    found[os.path.relpath(path, folder)] = [os.fstat(file.fileno()).st_size, content.hexdigest()[:32]]
    return found


def users(folder: str) -> str:
    """Processes with an open file or a working directory below."""
    found = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        for link in ("cwd", *(f"fd/{fd}" for fd in fds_of(pid))):
            try:
                path = os.readlink(f"/proc/{pid}/{link}")
            except OSError:
                continue
            if path == folder or path.startswith(f"{folder}/"):
                found.add(pid)
    return ", ".join(f"process {pid} ({_name(pid)})" for pid in sorted(found, key=int))


def _name(pid: str) -> str:
    try:
        with open(f"/proc/{pid}/environ") as file:
            known = dict(entry.partition("=")[::2] for entry in file.read().split("\0"))
        return known.get("CHAOS_MEMBER") or "no member"
    except OSError:
        return "gone"


def fds_of(pid: str) -> list[str]:
    try:
        return os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return []


def serve(control: socket.socket) -> None:
    """One request after the other, until the harness closes its end."""
    disks: dict[str, Disk] = {}
    while data := control.recv(1 << 16):
        request = json.loads(data)
        folder = request["folder"]
        try:
            if request["op"] == "attach":
                disks[folder] = Disk(request["image"], folder)
                reply: dict[str, Any] = {"ok": True}
            else:
                reply = disks[folder].cut()
        except subprocess.CalledProcessError as error:
            reply = {"error": f"mkfs.ext4: {error.stderr.decode(errors='replace').strip()}"}
        except OSError as error:
            reply = {"error": error.strerror or str(error)}
        control.sendall(json.dumps(reply).encode() + b"\n")


def attempt(folder: str) -> str:
    """A power cut in a mount namespace of our own; how long it took. Raises OSError. `folder` is any; nothing is left
    there, even of one that is killed: what is written goes into memory, which ends with the namespace."""
    kernel.syscall("unshare", kernel.CLONE_NEWNS)
    kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    kernel.mount("tmpfs", folder, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "mode=700")
    image, place = os.path.join(folder, "image"), os.path.join(folder, "place")
    os.mkdir(place)
    with open(image, "xb") as file:
        file.truncate(64 << 20)
    disk = Disk(image, place)
    seconds = disk.cut()["seconds"]
    disk.unmount(time.monotonic() + BUSY_FOR)
    return f"fsshutdown: ext4 on a loop image, cut and mounted again in {1000 * seconds:.0f} ms"


def main() -> None:
    if sys.argv[1] == "--try":
        kernel.die_with_parent()
        try:
            print(attempt(sys.argv[2]))
        except subprocess.CalledProcessError as error:
            sys.exit(f"mkfs.ext4: {error.stderr.decode(errors='replace').strip()}")
        except OSError as error:
            sys.exit(f"fsshutdown: {error.strerror or error}")
        return
    control = socket.socket(fileno=int(sys.argv[1]))
    harness, lab = int(sys.argv[2]), int(sys.argv[3])
    kernel.die_with_parent()
    if os.getppid() != harness:
        return
    try:
        lab_mounts = os.open(f"/proc/{lab}/ns/mnt", os.O_RDONLY)
        kernel.syscall("setns", lab_mounts, kernel.CLONE_NEWNS)
        os.close(lab_mounts)
    except OSError as error:
        control.sendall(json.dumps({"error": str(error)}).encode() + b"\n")
        return
    control.sendall(b'{"ok": true}\n')
    serve(control)


if __name__ == "__main__":
    main()
