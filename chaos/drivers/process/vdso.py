"""The wall clock of a running process: the code that the kernel lends it for asking the time, changed in its memory.

Programs do not ask the kernel for the time, they call a few functions that it maps into every process (the vDSO).
Their first instructions are replaced by jumps to code of ours in the unused end of that mapping; it asks the kernel and
adds a shift. The page becomes the process's own, so nobody else sees it; a fork takes it along, an exec does not. Each
time that somebody is told another time is counted in the last word of the stack, which Linux leaves empty above the
name of the program. x86-64 only.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import re
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from chaos.errors import NotLanded, Unsupported

# As vdso.S is assembled: the mark, a stamp, the shift in nanoseconds and where to count (8 bytes each), then the code.
MARK = b"chaosclk"
CODE = MARK + bytes(24) + bytes.fromhex(
    "b8e40000000f0585c0753d4885f6743885ff740a83ff05740583ff0b752ae8ad000000b900ca9a3b488b06480fafc148034608480305b6ff"
    "ffff489948f7f94889064889560831c0c30f1f8000000000b8600000000f0585c0753f4885ff743ae86b000000488b0584ffffffb9e80300"
    "00489948f7f94989c0b940420f00488b07480fafc1480347084c01c0489948f7f94889074889570831c0c30f1f440000574883ec1831ff48"
    "89e6e851ffffff488b04244883c4185f4885ff7403488907c366662e0f1f8400000000000f1f400048833d18ffffff007410488b0517ffff"
    "ff4885c07404f048ff00c3"
)  # fmt: skip
STAMP, SHIFT, PLACE = 8, 16, 24
REPLACED = {"__vdso_clock_gettime": 0x20, "__vdso_gettimeofday": 0x70, "__vdso_time": 0xC0}
WORD = 8  # bytes
JUMP = 5  # bytes of an instruction
KERNEL = "a kernel that lets a parent write to the memory of its children"
TRIED = 3600.0  # seconds by which a process of ours is shifted to see whether that can be done


class Caught(Exception):
    """A thread stands where the code is about to be changed: let it go on, and try again."""


class Image(NamedTuple):
    """What the kernel maps: its bytes, where each replaced function begins, where there is room."""

    content: bytes
    entries: dict[str, int]
    room: int

    @classmethod
    def of(cls, content: bytes) -> Image:
        """Of an ELF file as it lies in memory; Unsupported where there is no room in it."""
        head = struct.unpack_from("<16sHHIQQQIHHHHHH", content)
        if head[0][:5] != b"\x7fELF\2":
            raise Unsupported("the process is not a 64-bit one")
        room = head[6] + head[11] * head[12] + 63 & ~63
        entries = _functions(content, head[6], head[11], head[12])
        if len(content) < room + len(CODE) or "__vdso_clock_gettime" not in entries:
            raise Unsupported("no room for other code where the kernel keeps its clock functions")
        return cls(content, entries, room)


def _functions(content: bytes, start: int, size: int, count: int) -> dict[str, int]:
    sections = [struct.unpack_from("<IIQQQQIIQQ", content, start + i * size) for i in range(count)]
    found = {}
    for kind, offset, length, link in ((s[1], s[4], s[5], s[6]) for s in sections):
        if kind != 11:  # SHT_DYNSYM
            continue
        names = sections[link][4]
        for place in range(offset, offset + length, 24):
            name, _, _, _, value, _ = struct.unpack_from("<IBBHQQ", content, place)
            end = content.index(b"\0", names + name)
            found[content[names + name : end].decode()] = value
    return {name: found[name] for name in REPLACED if name in found}


def where(pid: int) -> tuple[int, int]:
    """Start and size of the mapping; NotLanded once the process has gone."""
    try:
        maps = Path(f"/proc/{pid}/maps").read_text()
    except OSError as error:
        raise NotLanded(f"process {pid} has gone: {error.strerror}") from error
    found = re.search(r"^([0-9a-f]+)-([0-9a-f]+) .*\[vdso\]$", maps, re.MULTILINE)
    if not found:
        raise NotLanded(f"process {pid} has gone, or asks the kernel itself for the time")
    return int(found[1], 16), int(found[2], 16) - int(found[1], 16)


def read(pid: int) -> bytes:
    """The mapping's bytes as that process has them."""
    start, size = where(pid)
    with _memory(pid) as memory:
        return os.pread(memory.fileno(), size, start)


def own() -> Image:
    """That of this process, as every other one has it that was not changed; Unsupported with the reason."""
    if platform.machine() != "x86_64":
        raise Unsupported(f"this machine is {platform.machine()}", "clocks are shifted on x86-64 only")
    return Image.of(read(os.getpid()))


def stamp(pid: int, image: Image) -> int:
    """Whose shift a process has; 0 without one."""
    start, _ = where(pid)
    with _memory(pid) as memory:
        found = os.pread(memory.fileno(), SHIFT, start + image.room)
    return int(struct.unpack("<Q", found[8:])[0]) if found.startswith(MARK) else 0


def asked(pid: int, image: Image) -> int:
    """How often a process that is shifted was told another time; what it was forked from counts as well."""
    start, _ = where(pid)
    with _memory(pid) as memory:
        (place,) = struct.unpack("<Q", os.pread(memory.fileno(), WORD, start + image.room + PLACE))
        return int(struct.unpack("<Q", os.pread(memory.fileno(), WORD, place))[0]) if place else 0


def write_shift(pid: int, image: Image, seconds: float) -> None:
    """Another shift of one that is shifted already; at once, and without a moment in between."""
    start, _ = where(pid)
    with _memory(pid) as memory:
        os.pwrite(memory.fileno(), struct.pack("<q", round(seconds * 1e9)), start + image.room + SHIFT)


def replace(pid: int, image: Image, seconds: float, number: int) -> None:
    """Shift a process that stands still; raises Caught where a thread is in the way."""
    start, _ = where(pid)
    content = read(pid)
    if content[: image.room] != image.content[: image.room]:
        raise NotLanded(f"process {pid} has other clock functions than this one: they were changed already")
    _look_out(pid, start, image)
    place = _empty_word(pid)
    with _memory(pid) as memory:
        if any(os.pread(memory.fileno(), WORD, place)):
            raise NotLanded(f"process {pid} uses the last word of its stack, in which its questions would be counted")
        code = bytearray(CODE)
        struct.pack_into("<QqQ", code, STAMP, number, round(seconds * 1e9), place)
        os.pwrite(memory.fileno(), bytes(code), start + image.room)
        for name, entry in image.entries.items():
            jump = struct.pack("<Bi", 0xE9, image.room + REPLACED[name] - entry - JUMP)
            os.pwrite(memory.fileno(), jump, start + entry)


def put_back(pid: int, image: Image) -> None:
    """Undo that in a process that stands still; our code stays, and nothing leads there any more."""
    start, _ = where(pid)
    _look_out(pid, start, image)
    with _memory(pid) as memory:
        for entry in image.entries.values():
            os.pwrite(memory.fileno(), image.content[entry : entry + JUMP], start + entry)
        (place,) = struct.unpack("<Q", os.pread(memory.fileno(), WORD, start + image.room + PLACE))
        os.pwrite(memory.fileno(), bytes(len(MARK) + 3 * WORD), start + image.room)
        if place:
            os.pwrite(memory.fileno(), bytes(WORD), place)


def ahead(pid: int, image: Image) -> float:
    """Seconds by which the clock of a process is ahead of ours: its own code, read out of its memory, is run here."""
    content = read(pid)
    entry = image.entries["__vdso_clock_gettime"]
    if content[: image.room] == image.content[: image.room]:
        return 0.0  # as the kernel gave it
    if content[entry] != 0xE9:
        raise NotLanded(f"process {pid} has clock functions that are neither the kernel's nor ours")
    with mmap.mmap(-1, len(content), prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC) as place:
        place.write(content)
        place[image.room + PLACE : image.room + PLACE + WORD] = bytes(WORD)  # what is asked here is not counted
        hold = ctypes.c_char.from_buffer(place)
        function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p)(ctypes.addressof(hold) + entry)
        answer = (ctypes.c_int64 * 2)()
        before = time.time()
        function(0, answer)
        del function, hold
        return round(answer[0] + answer[1] / 1e9 - before, 3)


def _empty_word(pid: int) -> int:
    """The address of the last word of its main thread's stack."""
    found = re.search(r"^[0-9a-f]+-([0-9a-f]+) .*\[stack\]$", Path(f"/proc/{pid}/maps").read_text(), re.MULTILINE)
    if not found:
        raise NotLanded(f"process {pid} has gone, or has no stack")
    return int(found[1], 16) - WORD


def _look_out(pid: int, start: int, image: Image) -> None:
    """Caught where a thread stands inside of an instruction that is about to be replaced."""
    for thread in os.listdir(f"/proc/{pid}/task"):
        try:
            words = Path(f"/proc/{pid}/task/{thread}/syscall").read_text().split()
        except OSError:
            continue  # it has just ended
        place = int(words[-1], 16) - start if len(words) > 1 else -1
        if any(entry < place < entry + JUMP for entry in image.entries.values()):
            raise Caught


def _memory(pid: int):  # type: ignore[no-untyped-def]
    try:
        return open(f"/proc/{pid}/mem", "r+b", buffering=0)
    except FileNotFoundError as error:
        raise NotLanded(f"process {pid} has gone") from error
    except OSError as error:
        raise Unsupported(f"the memory of process {pid} is closed to us: {error.strerror}", KERNEL) from error


def try_it() -> Image:
    """Shift a process of our own there and back; Unsupported with the reason where that cannot be done."""
    image = own()
    program = "import time\nwhile input() == '': print(time.time(), flush=True)"
    command = [sys.executable, "-I", "-S", "-u", "-c", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin is not None
        assert child.stdout is not None

        def ask() -> float:
            assert child.stdin is not None
            assert child.stdout is not None
            child.stdin.write("\n")
            child.stdin.flush()
            return float(child.stdout.readline()) - time.time()

        try:
            ask()  # it waits for its next line now
            replace(child.pid, image, TRIED, 1)
            told, measured = ask(), ahead(child.pid, image)
            counted = asked(child.pid, image)
            put_back(child.pid, image)
            back = ask()
        except (NotLanded, Caught, OSError, ValueError) as error:
            raise Unsupported(f"the clock of a process cannot be shifted here: {error}", KERNEL) from error
        finally:
            child.kill()
    if not counted:
        raise Unsupported("a process asked for the time, and its question was not counted")
    if not (abs(told - TRIED) < 60 and abs(measured - TRIED) < 60 and abs(back) < 60):
        raise Unsupported(f"a process that was shifted by {TRIED:g} s was {told:g} s ahead, and {back:g} s afterwards")
    return image
