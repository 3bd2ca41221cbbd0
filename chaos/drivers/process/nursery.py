"""A process that has imported what several members need, and from which they are forked: `preload:` of a target file.

Run by its path by `init.py`, in the lab; the harness never imports it. Each request makes one member: forked twice, so
that the member is a child of `init.py` like those that were executed, and runs `python -m MODULE` as `__main__`.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import json
import os
import runpy
import signal
import socket
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chaos.drivers.process import become, kernel
else:
    _spec = importlib.util.spec_from_file_location("become", os.path.join(sys.path[0], "become.py"))
    become = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(become)
    kernel = become.kernel

MOST_FDS = 32


def serve(channel: socket.socket) -> dict[str, Any]:
    """Answer requests; returns one in the process that shall become that member. Ends the process at end of file."""
    while True:
        data, fds, _, _ = socket.recv_fds(channel, 1 << 20, MOST_FDS, socket.MSG_CMSG_CLOEXEC)
        if not data:
            os._exit(0)
        request: dict[str, Any] = json.loads(data)
        answer, told = os.pipe2(os.O_CLOEXEC)
        go, start = os.pipe2(os.O_CLOEXEC)
        middle = os.fork()
        if middle == 0:
            if os.fork():
                os._exit(0)
            channel.close()
            os.close(answer)
            os.close(start)
            if born(request, fds, go, told):
                return request
            os._exit(127)
        os.close(told)
        os.close(go)
        os.waitpid(middle, 0)  # from here on the member's parent is `init.py`
        os.write(start, b"!")
        os.close(start)
        with os.fdopen(answer, "rb") as pipe:
            said = pipe.read().decode()
        for fd in fds:
            os.close(fd)
        pid, _, error = said.partition(" ")
        channel.send(json.dumps({"error": error or "it ended"} if error or not pid else {"pid": int(pid)}).encode())


def born(request: dict[str, Any], fds: list[int], go: int, told: int) -> bool:
    """In the member: everything up to its program; tells its process id, and why it cannot be where it cannot."""
    os.read(go, 1)
    os.close(go)
    os.write(told, str(os.getpid()).encode())
    try:
        node = fds[request["namespace"]] if request["namespace"] is not None else None
        become.become(request, fds, node, request["parent"])
        kernel.drop_rights()
    except OSError as error:
        os.write(told, f" {error}".encode())
        return False
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # as an interpreter has them that was executed
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for fd in fds:
        os.close(fd)
    os.close(told)
    return True


def main() -> None:
    """`nursery.py FD MODULE…`"""
    channel = socket.socket(fileno=int(sys.argv[1]))
    os.set_inheritable(channel.fileno(), False)
    kernel.die_with_parent()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.path.pop(0)  # this folder, whose modules are nobody's business
    gc.disable()  # nothing of an import is garbage, and looking for it takes a sixth of the time
    try:
        for name in sys.argv[2:]:
            importlib.import_module(name)
    except Exception as error:
        channel.send(json.dumps({"failed": f"{type(error).__name__}: {error}"}).encode())
        return
    gc.freeze()  # what is shared with the members stays shared
    gc.enable()
    channel.send(b"{}")
    request = serve(channel)
    os.environ.update(request["env"])
    sys.argv = ["-m", *request["argv"][3:]]
    sys.path.insert(0, request["cwd"])
    runpy.run_module(request["argv"][2], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
