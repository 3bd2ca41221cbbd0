"""`chaos gameday`: run, preview, look at and steer game days; every command but `run` works from another terminal."""

from __future__ import annotations

import argparse
import getpass
import os
import select
import signal
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from chaos.clean import clean
from chaos.cli.gameday_places import Known, known, meant
from chaos.errors import Exit, GameDayError
from chaos.gameday.children import lives
from chaos.gameday.desk import UNHEALED
from chaos.gameday.records import DayState
from chaos.gameday.store import Store
from chaos.gameday.wake import ring

PATIENCE = 60.0  # seconds that the kill switch waits for heals


def main(call: argparse.Namespace) -> int:
    """Dispatch."""
    elsewhere = {
        "run": "gameday_running", "plan": "gameday_preview", "report": "gameday_reports", "status": "gameday_status"
    }  # fmt: skip
    if call.command in elsewhere:
        code: int = import_module(f"chaos.cli.{elsewhere[call.command]}").main(call)
        return code
    if call.command == "kill-all":
        return kill_all(call)
    return order(call)


def order(call: argparse.Namespace) -> int:
    """Leave an order and wake whoever runs the day; where nobody does, it takes effect when somebody does again."""
    state = meant(call.plan, call.state)
    by = clean(call.by or getpass.getuser())
    with Store(state) as store:
        _check(call.command, store)
        store.order(call.command, clean(getattr(call, "text", None) or ""), by, time.time())
        if ring(state):
            return Exit.PASS
        if call.command == "abort":
            _end_orphans(store)
    print(f"{state}: nobody runs this game day now; the order is kept for when it is started again", file=sys.stderr)
    return Exit.PASS


def _check(what: str, store: Store) -> None:
    """Refuse what would have no effect."""
    last = store.last()
    day = last.id if last is not None and last.state is DayState.RUNNING else None
    if what == "abort" and day is None:
        raise GameDayError(f"{store.path}: no day is running")
    if what in ("approve", "reject") and (day is None or all(gate.answer for gate in store.gates(day))):
        raise GameDayError(f"{store.path}: nothing is asked; `chaos gameday status`")


def _end_orphans(store: Store) -> list[int]:
    """Ask experiments that outlived their game day to heal and end; file descriptors that tell when they have."""
    files = []
    last = store.last()
    for attempt in store.attempts(last.id) if last is not None and last.state is DayState.RUNNING else ():
        if attempt.finding is None and attempt.pid is not None and lives(attempt.pid, attempt.born):
            with suppress(OSError):
                files.append(file := os.pidfd_open(attempt.pid))
                signal.pidfd_send_signal(file, signal.SIGTERM)
    return files


def kill_all(call: argparse.Namespace) -> int:
    """The kill switch: every game day of this user on this machine, and every experiment that one has left running."""
    files = {file: entry for entry in known() for file in _end(entry, call.by or getpass.getuser())}
    if not files:
        print("no game day is running")
        return Exit.PASS
    left, code = _await(files, PATIENCE), Exit.PASS
    for file, entry in files.items():
        os.close(file)
        with Store(Path(entry.state)) as store:
            unhealed = store.fact(UNHEALED)
        if unhealed:
            code = Exit.HEAL_FAILED
            print(f"{entry.title}: a heal failed: {unhealed}")
        elif file in left:
            code = code or Exit.INCONCLUSIVE
            print(f"{entry.title}: still ending; its heals have limits of their own")
        else:
            print(f"{entry.title}: ended")
    return code


def _end(entry: Known, by: str) -> list[int]:
    if entry.alive:
        with suppress(OSError):
            file = os.pidfd_open(entry.pid)
            signal.pidfd_send_signal(file, signal.SIGTERM)
            return [file]
    with suppress(GameDayError), Store(Path(entry.state)) as store:
        files = _end_orphans(store)
        last = store.last()
        if last is not None and last.state is DayState.RUNNING:
            store.order("abort", "kill-all", by, time.time())  # so that it does not go on when it is started again
        return files
    return []


def _await(files: Iterable[int], within: float) -> set[int]:
    """Those of the processes that have not ended by then."""
    left, deadline = set(files), time.monotonic() + within
    poll = select.poll()
    for file in left:
        poll.register(file, select.POLLIN)
    while left and (rest := deadline - time.monotonic()) > 0:
        for file, _ in poll.poll(rest * 1000):
            poll.unregister(file)
            left.discard(file)
    return left
