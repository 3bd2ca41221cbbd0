"""Never two game days on one target: a lock a target file, held by the day and by every experiment it has started."""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from chaos.errors import GameDayError


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """Who has a target: for the message to whoever wants it too."""

    day: str  # names one day for all times: the state file and the day's number
    title: str
    plan: str
    pid: int

    def __str__(self) -> str:
        return f"game day “{self.title}” ({self.plan}, pid {self.pid})"


class Busy(msgspec.Struct, frozen=True):
    """A target that somebody else has; `by` None where that cannot be read."""

    target: str
    by: Holder | None

    def __str__(self) -> str:
        return f"{self.target} is in use by {self.by or 'another game day'}"


class Targets:
    """Locks below one folder. `files` are the open ones: to be handed on to children, which then hold them as well."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.files: list[int] = []

    def take(self, targets: Sequence[str], holder: Holder) -> Busy | None:
        """All of them, or none and who has the first that is taken."""
        for target in targets:
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
                path = self._folder / f"{hashlib.sha256(target.encode()).hexdigest()[:16]}.lock"
                file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            except OSError as error:
                raise GameDayError(f"{self._folder}: {error.strerror}") from error
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                busy = Busy(target, _read(file))
                os.close(file)
                self.release()
                return busy
            os.ftruncate(file, 0)
            os.pwrite(file, msgspec.json.encode(holder), 0)
            self.files.append(file)
        return None

    def release(self) -> None:
        """Let go of all; a child that lives goes on holding its own."""
        while self.files:
            os.close(self.files.pop())


def _read(file: int) -> Holder | None:
    with suppress(msgspec.MsgspecError):
        return msgspec.json.decode(os.pread(file, 1 << 16, 0), type=Holder)
    return None
