"""The filter a member gets, run by hand: what it hands over and what it lets pass, on both processors."""

from __future__ import annotations

import os
import platform
import re
import struct
from pathlib import Path

import pytest

from chaos.drivers.process.fittings.tap.filter import ALLOW, NOTIFY, program
from chaos.drivers.process.fittings.tap.syscalls import CALLS, MACHINES, Machine, numbers
from chaos.fileops import FILE_OPS, Op

X86, ARM = MACHINES["x86_64"], MACHINES["aarch64"]
HEADERS = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")


def judge(code: bytes, number: int, arch: int, *args: int) -> int:
    """What the kernel would make of a call: classic BPF, as far as the filter uses it."""
    data = struct.pack("=iIQ6Q", number, arch, 0, *(*args, *[0] * (6 - len(args))))
    lines = list(struct.iter_unpack("=HBBI", code))
    place = held = 0
    while True:
        what, yes, no, value = lines[place]
        place += 1
        if what == 0x20:
            (held,) = struct.unpack_from("=I", data, value)
        elif what == 0x06:
            return int(value)
        else:
            met = {0x15: held == value, 0x45: bool(held & value), 0x35: held >= value}[what]
            place += yes if met else no


@pytest.mark.parametrize("machine", [X86, ARM], ids=["x86-64", "arm64"])
@pytest.mark.parametrize("op", FILE_OPS)
def test_what_is_wanted_is_handed_over_and_nothing_else(machine: Machine, op: Op) -> None:
    code, wanted = program(frozenset({op}), machine), numbers(frozenset({op}), machine.column)
    assert wanted
    for name, call in CALLS.items():
        number = getattr(call, machine.column)
        if number is None:
            continue
        flags = {call.flags: os.O_CREAT} if call.flags is not None else {}
        said = judge(code, number, machine.audit, *(flags.get(i, 0) for i in range(6)))
        assert said == (NOTIFY if number in wanted else ALLOW), name


def test_of_opens_only_those_that_may_make_a_file() -> None:
    code = program(frozenset({"create", "rename"}), X86)
    assert judge(code, 257, X86.audit, 0, 0, os.O_WRONLY) == ALLOW
    assert judge(code, 257, X86.audit, 0, 0, os.O_WRONLY | os.O_CREAT) == NOTIFY
    assert judge(code, 82, X86.audit) == NOTIFY
    code = program(frozenset({"create", "open"}), X86)
    assert judge(code, 257, X86.audit, 0, 0, os.O_RDONLY) == NOTIFY


def test_programs_of_another_instruction_set_pass() -> None:
    code = program(frozenset({"write"}), X86)
    assert judge(code, 1, X86.audit) == NOTIFY
    assert judge(code, 1, ARM.audit) == ALLOW
    assert judge(code, 1 | 0x40000000, X86.audit) == ALLOW


@pytest.mark.skipif(platform.machine() != "x86_64" or not HEADERS.exists(), reason="no kernel headers (linux-libc-dev)")
def test_the_numbers_are_those_of_the_kernel() -> None:
    known = dict(re.findall(r"#define __NR_(\w+) (\d+)", HEADERS.read_text()))
    assert {name: call.x86 for name, call in CALLS.items()} == {name: int(known[name]) for name in CALLS}
