"""Starts the process that compares answers, see `checker.py`."""

from __future__ import annotations

import socket
import subprocess
import sys

from targets.serving.load.checker import said


def start() -> int:
    """The number of the socket to it. It ends when that is closed, so also with this process, however that ends."""
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-m", "targets.serving.load.checker", str(theirs.fileno())]
    subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
    theirs.close()
    return ours.detach()


def wait(checker: socket.socket) -> str:
    """Until it is ready to compare; the reason why it is not able to, empty where it is."""
    line = b""
    while not line.endswith(b"\n"):
        chunk = checker.recv(1)  # it says nothing more until it is asked
        if not chunk:
            return "it ended at once"
        line += chunk
    return said(line)
