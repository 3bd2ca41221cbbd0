"""How a command from another terminal wakes the process that runs the day: a named pipe beside the state."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import anyio


class Bell:
    """The side that is woken. Orders lie in the store: a ring says only that somebody should look."""

    def __init__(self, state: Path) -> None:
        self._path = bell_of(state)
        with suppress(FileNotFoundError):
            if not stat.S_ISFIFO(self._path.stat().st_mode):
                self._path.unlink()
        with suppress(FileExistsError):
            os.mkfifo(self._path, 0o600)
        # For reading and writing, so that the last one to ring does not end the file.
        self._file = os.open(self._path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        os.close(self._file)
        self._path.unlink(missing_ok=True)

    async def heed(self, look: Callable[[], None]) -> None:
        """Call `look` at every ring, for ever."""
        while True:
            await anyio.wait_readable(self._file)
            with suppress(BlockingIOError):
                os.read(self._file, 4096)
            look()


def bell_of(state: Path) -> Path:
    """The pipe that belongs to a state file."""
    return state.with_name(f"{state.name}.wake")


def ring(state: Path) -> bool:
    """Wake whoever runs the game day of that state; whether somebody does."""
    try:
        file = os.open(bell_of(state), os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:  # no pipe, or nobody reads it
        return False
    try:
        with suppress(BlockingIOError):  # a full pipe: it has been woken often enough
            os.write(file, b"!")
    finally:
        os.close(file)
    return True
