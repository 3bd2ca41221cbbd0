"""Whether this machine lets a member be tapped: tried, not guessed."""

from __future__ import annotations

import ctypes
import errno
import os
import threading
from contextlib import suppress

from chaos.drivers.process.fit_tap import install
from chaos.drivers.process.fittings.tap.filter import program
from chaos.drivers.process.fittings.tap.notice import answer, memory, receive
from chaos.drivers.process.fittings.tap.syscalls import MACHINES, machine
from chaos.errors import Unsupported

NOWHERE = "/proc/chaos-probe"  # no folder can be made there, so nothing is left where the filter does nothing


def probe() -> None:
    """Have a thread of ours make a folder, and refuse it; raises Unsupported with what is missing."""
    here = machine()
    if here is None:
        raise Unsupported(f"the tap knows the system calls of {' and '.join(MACHINES)}, not of {os.uname().machine}")
    code = program(frozenset({"mkdir"}), here)
    heard: list[int] = []
    said: list[int] = []
    ready = threading.Event()

    def try_it() -> None:  # the filter is that of this thread alone, and goes with it
        try:
            heard.append(install(code, here.seccomp))
        except OSError as error:
            said.append(error.errno or 0)
        ready.set()
        if heard:
            try:
                os.mkdir(NOWHERE)
            except OSError as error:
                said.append(error.errno or 0)

    thread = threading.Thread(target=try_it, name="tap-probe", daemon=True)
    thread.start()
    ready.wait()
    if not heard:
        thread.join()
        why = "another one listens to this process already" if said[0] == errno.EBUSY else os.strerror(said[0])
        raise Unsupported(f"seccomp user notification is refused ({why}); Linux 5.6 has it, containers may forbid it")
    try:
        notice = receive(heard[0])
        assert notice is not None
        marker = ctypes.create_string_buffer(b"readable")
        with suppress(OSError):
            memory(notice.tid, ctypes.addressof(marker), 8)
        answer(heard[0], notice.id, error=errno.EDQUOT)
        thread.join()
    finally:
        os.close(heard[0])
    if said != [errno.EDQUOT]:
        raise Unsupported(f"seccomp user notification is there and does nothing: {said}")
