"""Log lines as JSON on standard error, each with the id of the request that it is about."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import msgspec

_encode = msgspec.json.Encoder(enc_hook=str).encode


class Log:
    """The log of one member. A line is one write: lines of several threads do not mix."""

    def __init__(self, member: str) -> None:
        self._member = member
        self._to = sys.stderr.fileno()

    def info(self, message: str, *, request: str | None = None, **fields: Any) -> None:
        """What happened as it should."""
        self._line("info", message, request, fields)

    def warning(self, message: str, *, request: str | None = None, **fields: Any) -> None:
        """What somebody may want to look at."""
        self._line("warning", message, request, fields)

    def error(self, message: str, *, request: str | None = None, **fields: Any) -> None:
        """What should not have happened."""
        self._line("error", message, request, fields)

    def _line(self, level: str, message: str, request: str | None, fields: dict[str, Any]) -> None:
        line = {"time": time.time(), "level": level, "member": self._member, "message": message, "request": request}
        os.write(self._to, _encode({**line, **fields}) + b"\n")
