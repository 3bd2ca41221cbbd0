"""In a member's process: see the data through a file system of the harness, in a mount namespace of its own.

Standard library only. The server (`fuse_server.py`) gets the open end of the file system over a socket, and says when
it answers; only then the program is executed, so that no member ever runs on the bare folder in between.
"""

from __future__ import annotations

import importlib.util
import os
import socket
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chaos.drivers.process import kernel
else:
    _spec = importlib.util.spec_from_file_location("kernel", os.path.join(os.path.dirname(__file__), "kernel.py"))
    kernel = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(kernel)

MS_SLAVE = 1 << 19  # a disk that the lab loses is lost here, too
ANSWER = 30.0  # seconds that the server may take to start; when it ends it is known at once


def dress(options: dict[str, Any], fds: list[int]) -> None:
    folder = options["folder"]
    kernel.syscall("unshare", kernel.CLONE_NEWNS)
    kernel.mount("none", "/", None, kernel.MS_REC | MS_SLAVE)
    with socket.socket(fileno=os.dup(fds[0])) as server:
        device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        try:
            # "allow_other": whoever runs as another user may look, too, and the server decides.
            data = f"fd={device},rootmode=40000,user_id={os.geteuid()},group_id={os.getegid()},allow_other"
            kernel.mount("chaos", folder, "fuse.chaos", kernel.MS_NOSUID | kernel.MS_NODEV, data)
            socket.send_fds(server, [b"!"], [device])
        finally:
            os.close(device)
        server.settimeout(ANSWER)
        if server.recv(1) != b"!":
            raise OSError("the server of the fault file system ended before it answered")
    os.stat(folder)
