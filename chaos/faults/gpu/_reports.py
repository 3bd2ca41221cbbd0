"""Reports of a device that is said to be sick: by NVIDIA's DCGM, or as a line in the kernel's log."""

from __future__ import annotations

import errno
import os
import shutil
import time
from contextlib import suppress
from typing import Literal

import anyio

from chaos.api import JSON
from chaos.errors import NotLanded, Unsupported

KERNEL_LOG = "/dev/kmsg"
READS = 100_000  # records of the log at most: more are never kept
Allowed = Literal["host-kernel-log"]


async def by_dcgm(gpu: int, field: int, value: int) -> JSON:
    """Inject a value for a field of DCGM: whoever watches it by DCGM sees it."""
    program = shutil.which("dcgmi")
    if program is None:
        raise Unsupported("dcgmi is not on the path: install DCGM (datacenter-gpu-manager) and start nv-hostengine")
    command = [program, "test", "--inject", "--gpuid", str(gpu), "-f", str(field), "-v", str(value)]
    done = await anyio.run_process(command, check=False)
    said = (done.stdout + done.stderr).decode(errors="replace").strip()
    if done.returncode != 0 or "uccess" not in said:
        raise NotLanded(f"dcgmi did not inject it (exit code {done.returncode}): {said[-200:]}")
    return {"mechanism": "DCGM injection", "command": command[1:], "said": said[-200:]}


async def by_kernel_log(line: str, allow: tuple[Allowed, ...]) -> JSON:
    """Write a line as the driver would, and read it back. It stays: a log has no heal."""
    if "host-kernel-log" not in allow:
        raise Unsupported("the log of the host's kernel is never written to without `allow: [host-kernel-log]`")
    return await anyio.to_thread.run_sync(_log, line)


def _log(line: str) -> JSON:
    try:
        log = os.open(KERNEL_LOG, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise Unsupported(f"{KERNEL_LOG} cannot be opened: {error.strerror}; be root, in no container") from error
    mark = f"{line} (chaos {time.monotonic_ns():x})"
    try:
        with suppress(OSError):  # from here on
            os.lseek(log, 0, os.SEEK_END)
        os.write(log, f"<3>{mark}\n".encode())
        for _ in range(READS):
            try:
                record = os.read(log, 8192).decode(errors="replace")
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno == errno.EPIPE:  # what comes next was overwritten meanwhile
                    continue
                raise
            if mark in record:
                return {"mechanism": "kernel log", "record": record.strip()[-300:]}
            if not record:
                break
    finally:
        os.close(log)
    raise NotLanded(f"the line was written to {KERNEL_LOG}, and is not there")
