"""The filter that a member gets: a classic BPF program that hands some system calls to the harness, passes the rest."""

from __future__ import annotations

import os
import struct

from chaos.drivers.process.fittings.tap.syscalls import CALLS, Machine, numbers, only_creating

LOAD, EQUAL, BITS, AT_LEAST, RETURN = 0x20, 0x15, 0x45, 0x35, 0x06  # BPF_LD|W|ABS, JEQ|K, JSET|K, JGE|K, RET|K
ALLOW, NOTIFY = 0x7FFF0000, 0x7FC00000
NUMBER, ARCH, ARGUMENT = 0, 4, 16  # places in `struct seccomp_data`; the low half of an argument comes first
X32 = 0x40000000


def program(ops: frozenset[str], machine: Machine) -> bytes:
    """Instructions, eight bytes each. Calls of another instruction set (32-bit programs) pass unseen."""
    wanted = numbers(ops, machine.column)
    lines = [(LOAD, 0, 0, ARCH), (EQUAL, 1, 0, machine.audit), (RETURN, 0, 0, ALLOW), (LOAD, 0, 0, NUMBER)]
    if machine.column == "x86":
        lines += [(AT_LEAST, 0, 1, X32), (RETURN, 0, 0, ALLOW)]
    for number, name in sorted(wanted.items()):
        flags = CALLS[name].flags
        if CALLS[name].op == "open" and flags is not None and only_creating(ops):
            lines += [(EQUAL, 0, 4, number), (LOAD, 0, 0, ARGUMENT + 8 * flags), (BITS, 0, 1, os.O_CREAT)]
            lines += [(RETURN, 0, 0, NOTIFY), (RETURN, 0, 0, ALLOW)]
        else:
            lines += [(EQUAL, 0, 1, number), (RETURN, 0, 0, NOTIFY)]
    lines.append((RETURN, 0, 0, ALLOW))
    return b"".join(struct.pack("=HBBI", *line) for line in lines)
