"""Run by the store: says who it is, then becomes `redis-server`. Ends with the store, however that ends."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

from chaos import inside

_PDEATHSIG = 1  # PR_SET_PDEATHSIG of <sys/prctl.h>; stays set over exec


def main() -> None:
    member, node, parent, *command = sys.argv[1:]
    ctypes.CDLL(None, use_errno=True).prctl(_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(parent):
        sys.exit("the store ended first")
    inside.hello(member, role="redis", node=node)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
