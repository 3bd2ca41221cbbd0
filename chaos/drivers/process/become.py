"""Turn a process that was just forked into a member: its node, its output, what it is fitted with.

Loaded by its path, by `init.py` and by `nursery.py`; imports nothing of the harness but `kernel.py` beside it.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
from typing import TYPE_CHECKING, Any

HERE = os.path.dirname(os.path.abspath(__file__))


def beside(name: str) -> Any:
    """A module in this folder, which is no package here."""
    spec = importlib.util.spec_from_file_location(name, os.path.join(HERE, f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if TYPE_CHECKING:
    from chaos.drivers.process import kernel
else:
    kernel = beside("kernel")


def fitted(name: str, step: str, *arguments: Any) -> Any:
    """Have a fitting do its part of a step, where it has one: see `fittings/base.py`."""
    if os.path.exists(os.path.join(HERE, f"fit_{name}.py")):
        module = beside(f"fit_{name}")
        if hasattr(module, step):
            return getattr(module, step)(*arguments)
    return None


def become(request: dict[str, Any], fds: list[int], node: int | None, parent: int) -> None:
    """All of it but the program. `node` is its network namespace, `parent` the process with which it must end."""
    os.setsid()
    kernel.die_with_parent()
    if os.getppid() != parent:
        os._exit(127)
    if node is not None:
        kernel.syscall("setns", node, kernel.CLONE_NEWNET)
        kernel.syscall("unshare", kernel.CLONE_NEWUTS)
        socket.sethostname(request["node"])
    nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    for old, new in ((nothing, 0), (fds[0], 1), (fds[0], 2)):
        os.dup2(old, new)
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    os.chdir(request["cwd"])
    for name, dress in request["dress"].items():
        fitted(name, "dress", dress["options"], [fds[i] for i in dress["fds"]])
