"""Printing what an exit code must not depend on."""

from __future__ import annotations

import os
import sys


def say(text: str) -> None:
    """Print; whether anybody reads it, or the disk takes it, changes nothing for a run or its verdict."""
    try:
        print(text, flush=True)
    except OSError:
        mute()


def mute() -> None:
    """Send what is printed from here on nowhere, so that the interpreter can end without complaint."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
