"""Standard streams that nobody needs to read: a verdict does not hang on who listens."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from io import TextIOWrapper
from typing import Any, TextIO


class Patient:
    """A stream whose reader may go and whose disk may be full: what it does not take is dropped from then on."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError:
            self._drop()
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError:
            self._drop()

    def _drop(self) -> None:
        # What is still in its buffer must go somewhere, or the interpreter ends with a code of its own.
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, self._stream.fileno())
        os.close(null)


def columns() -> int:
    """The width of the terminal; where there is none, one that fits most places."""
    found = 0
    with suppress(ValueError, OSError):
        found = int(os.environ["COLUMNS"]) if "COLUMNS" in os.environ else os.get_terminal_size(1).columns
    return found if found > 0 else 100


@contextmanager
def patient() -> Iterator[None]:
    """Standard output and error as they are wanted for the length of the block; flushed at its end."""
    _fill_gaps()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that cannot show a character must not end a run
    out, err = Patient(sys.stdout), Patient(sys.stderr)
    with redirect_stdout(out), redirect_stderr(err):
        try:
            yield
        finally:
            out.flush()
            err.flush()


def _fill_gaps() -> None:
    """A standard stream that is closed (`>&-`) would be the next file that is opened, and what is printed go there."""
    if None not in (sys.stdin, sys.stdout, sys.stderr):
        return
    while (null := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(null, True)
    os.close(null)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)
