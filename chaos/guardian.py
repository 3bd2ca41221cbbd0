"""What must be undone outside the lab: written down before it is done, undone by a process that outlives the runner.

`undo.jsonl` in a run's folder holds one JSON object a line: `{"id", "what", "method", "url"}` before an injection,
`{"id", "done": "healed" | "guardian" | "by hand"}` after its heal. The guardian is this file, run by its path with the
standard library only: it waits for the end of a pipe that only the runner holds, and heals what is still owed then.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from typing import Any

NAME = "undo.jsonl"
PATIENCE = 2.0  # seconds for one request
TRIES, AGAIN = 5, 0.5  # of a server that does not answer, and seconds between them

Debt = dict[str, Any]


class Ledger:
    """The file in one run's folder, held by a lock as long as its runner or its guardian lives."""

    def __init__(self, folder: str, file: int | None = None) -> None:
        """Open, or create it. `file` is one that is open and locked already."""
        self.path = os.path.join(folder, NAME)
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self.file = os.open(self.path, flags, 0o644) if file is None else file

    def lock(self) -> bool:
        """Whether nobody else holds it; held from now on."""
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def write(self, entry: Debt) -> None:
        """Append, durably, after a line that may be torn."""
        size = os.fstat(self.file).st_size
        torn = size and os.pread(self.file, 1, size - 1) != b"\n"
        os.write(self.file, b"\n" * bool(torn) + json.dumps(entry).encode() + b"\n")
        os.fsync(self.file)

    def owed(self) -> list[Debt]:
        """What was done and not undone, the newest first; a torn last line was never acted on."""
        open_debts: dict[int, Debt] = {}
        for line in os.pread(self.file, os.fstat(self.file).st_size, 0).splitlines():
            with suppress(ValueError, KeyError):
                entry = json.loads(line)
                if "done" in entry:
                    open_debts.pop(entry["id"], None)
                else:
                    open_debts[entry["id"]] = entry
        return list(open_debts.values())[::-1]

    def close(self) -> None:
        """Lets the lock go too, unless a guardian holds the file as well."""
        os.close(self.file)


def settle(ledger: Ledger, by: str) -> list[tuple[Debt, str]]:
    """Undo all that is owed; what could not be, with the reason."""
    failed = []
    for debt in ledger.owed():
        reason = undo(debt)
        if reason:
            failed.append((debt, reason))
        else:
            ledger.write({"id": debt["id"], "done": by})
    return failed


def undo(debt: Debt) -> str:
    """Send the request; the reason when it was in vain. Whatever is not there any more is undone."""
    from urllib.error import HTTPError, URLError
    from urllib.request import Request, build_opener

    opener = build_opener()
    opener.addheaders = [("User-Agent", "chaos")]
    reason = ""
    for again in range(TRIES):
        try:
            opener.open(Request(debt["url"], method=debt["method"]), timeout=PATIENCE).close()
            return ""
        except HTTPError as error:
            if error.code == 404:
                return ""
            reason = f"{debt['method']} {debt['url']}: {error.code} {error.reason}"
        except (URLError, OSError, ValueError) as error:
            reason = f"{debt['method']} {debt['url']}: {getattr(error, 'reason', error)}"
        if again < TRIES - 1:
            time.sleep(AGAIN)
    return reason


def spawn(ledger: Ledger) -> int:
    """Start a guardian, nobody's child; the file descriptor whose closing, by our end or our death, is its sign."""
    watched, held = os.pipe2(os.O_CLOEXEC)
    command = [sys.executable, "-I", "-S", os.path.abspath(__file__), str(watched), str(ledger.file)]
    try:
        subprocess.run(
            [*command, os.path.dirname(ledger.path)], pass_fds=[watched, ledger.file], start_new_session=True,
            check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
    finally:
        os.close(watched)
    return held


def main() -> None:
    """`guardian.py PIPE LEDGER FOLDER`"""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    if os.fork():
        os._exit(0)  # so that a runner that has ended leaves it to nobody to reap
    while os.read(int(sys.argv[1]), 1):
        pass
    settle(Ledger(sys.argv[3], int(sys.argv[2])), "guardian")


if __name__ == "__main__":
    main()
