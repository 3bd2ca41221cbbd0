"""Where game days keep what other terminals look for: their state, who runs it, the locks of targets."""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from chaos.errors import GameDayError
from chaos.gameday.children import born, lives


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """A game day that runs on this machine, or was run by this user."""

    state: str
    plan: str
    title: str
    pid: int
    born: str

    @property
    def alive(self) -> bool:
        """Whether the process that runs it is there."""
        return lives(self.pid, self.born)


def home() -> Path:
    """The folder for all game days of this user: `$XDG_STATE_HOME/chaos`."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base, "chaos").absolute()


def state_of(plan: str | Path) -> Path:
    """Where the state of a plan is, unless `--state` says otherwise."""
    return _named(Path(plan).resolve(), Path(plan).stem).with_suffix(".sqlite")


def _named(path: Path, stem: str) -> Path:
    return home() / "gamedays" / f"{stem}-{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"


def known() -> list[Known]:
    """All whose state is still there; those that run come first."""
    found = []
    for path in sorted((home() / "gamedays").glob("*.json")):
        with suppress(OSError, msgspec.MsgspecError):
            entry = msgspec.json.decode(path.read_bytes(), type=Known)
            if Path(entry.state).exists():
                found.append(entry)
    return sorted(found, key=lambda entry: not entry.alive)


def meant(plan: str | None, state: str | None) -> Path:
    """The state that a command is about; GameDayError where that is not clear."""
    if state is not None:
        return Path(state).absolute()
    if plan is not None:
        entries = [e for e in known() if Path(e.plan) == Path(plan).resolve()]
        return Path(entries[0].state) if entries else state_of(plan)
    entries = known()
    running = [entry for entry in entries if entry.alive] or entries
    if not running:
        raise GameDayError("no game day is known here; name its plan, or --state FILE")
    if len(running) > 1:
        raise GameDayError(f"which one? name its plan: {', '.join(entry.plan for entry in running)}")
    return Path(running[0].state)


@contextmanager
def running(state: Path, plan: str, title: str) -> Iterator[None]:
    """Be the one process that runs the game day of that state, known to others; GameDayError where one does."""
    entry = _named(state, state.stem).with_suffix(".json")
    try:
        state.parent.mkdir(parents=True, exist_ok=True)
        entry.parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(state.with_name(f"{state.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise GameDayError(f"{error.filename}: {error.strerror}") from error
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            others = [e for e in known() if Path(e.state) == state and e.alive]
            who = f" (pid {others[0].pid})" if others else ""
            raise GameDayError(f"{state}: a game day runs on this state already{who}") from None
        me = Known(state=str(state), plan=plan, title=title, pid=os.getpid(), born=born(os.getpid()))
        draft = entry.with_suffix(f".{os.getpid()}")
        draft.write_bytes(msgspec.json.encode(me))
        draft.replace(entry)
        yield
    finally:
        os.close(lock)
