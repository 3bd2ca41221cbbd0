"""The journal of a run: append-only, one event a line, readable after any crash."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from chaos.errors import JournalError
from chaos.history import Event

# Not `monkey`, not `TOKENIZERS_PARALLELISM`; but `apiKey`, `PGPASSWORD`, `AUTH_TOKEN_2`.
SECRET_NAME = re.compile(
    r"(?i:passw(or)?d|secret|credential)|(?i:tokens?)(?![A-Za-z])"
    r"|(^|[^A-Za-z]|(?<=[a-z])(?=K))(?i:keys?)(?![A-Za-z])"
)
SHORTEST_SECRET = 4  # masking every occurrence of something shorter would eat ordinary words
MASK = "***"
LAST = "run.ended"  # holds the digest of every line before it

_encode = msgspec.json.Encoder(enc_hook=str).encode


class Journal:
    """A file of events, written one line and one system call at a time: what was appended survives a killed harness.

    `append` never raises: nothing may stand before a heal. After the first write that fails, `broken` says why and
    nothing more is written, so that only the last line can be torn.
    """

    def __init__(self, path: Path, secrets: Iterable[str] = ()) -> None:
        """Create the file. Raises FileExistsError where there is one: a run never writes over another."""
        self.path = path
        self.broken: str | None = None
        self._secrets = tuple(sorted(set(secrets), key=len, reverse=True))
        self._needles = tuple(_encode(s)[1:-1] for s in self._secrets)
        self._digest = hashlib.blake2b(digest_size=16)
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o644)

    def append(self, event: Event) -> int:
        """Write one event; its length as a line."""
        if event.kind == LAST:
            event = msgspec.structs.replace(event, data={**event.data, "digest": self._digest.hexdigest()})
        line = _line(event)
        if any(needle in line for needle in self._needles):
            line = _line(msgspec.structs.replace(event, data=mask(event.data, self._secrets)))
        self._digest.update(line)
        try:
            if self.broken is None and os.write(self._file, line) < len(line):
                self.broken = f"{self.path}: the file system took only part of a line"
        except OSError as error:
            self.broken = f"{self.path}: {error.strerror}"
        return len(line)

    def close(self) -> None:
        """Bring everything to the disk."""
        if self._file >= 0:
            try:
                os.fsync(self._file)
            except OSError as error:
                self.broken = self.broken or f"{self.path}: {error.strerror}"
            os.close(self._file)
            self._file = -1
            self.broken = self.broken or "closed"


def read(path: Path) -> Iterator[Event]:
    """The events of a journal, streamed. A torn last line is left out: that is how a killed run ends.

    Raises JournalError with the line for anything else: no file, no journal, damage or a gap before the end, and lines
    that are not those which the run had written when it ended: an event that was edited in judges nothing.
    """
    decode = msgspec.json.Decoder(Event).decode
    digest = hashlib.blake2b(digest_size=16)
    try:
        with open(path, "rb", buffering=1 << 20) as file:
            for number, line in enumerate(file):
                try:
                    event = decode(line)
                except (msgspec.DecodeError, UnicodeDecodeError) as error:
                    if not line.endswith(b"\n"):
                        return
                    raise JournalError(f"{path}:{number + 1}: not an event: {error}") from error
                if number == 0 and event.kind != "run.started":
                    raise JournalError(f"{path}:1: no journal: it begins with {event.kind}, not with run.started")
                if event.seq != number:
                    raise JournalError(f"{path}:{number + 1}: event {event.seq} stands where {number} should")
                if event.kind == LAST and event.data.get("digest", digest.hexdigest()) != digest.hexdigest():
                    raise JournalError(f"{path}:{number + 1}: a line before it was changed after the run had ended")
                digest.update(line)
                yield event
    except OSError as error:
        raise JournalError(f"{path}: {error.strerror}") from error


def find_secrets(group: Mapping[str, Any], shortest: int = SHORTEST_SECRET) -> frozenset[str]:
    """The values in settings or an environment whose names say that they are secret, of that length at least."""
    found: set[str] = set()
    for name, value in group.items():
        if isinstance(value, Mapping):
            found |= find_secrets(value, shortest)
        elif isinstance(value, str) and len(value) >= shortest and SECRET_NAME.search(name):
            found.add(value)
    return frozenset(found)


def without_secrets(settings: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of settings in which every text whose name says that it is secret is masked, however short."""
    return {
        name: without_secrets(value)
        if isinstance(value, Mapping)
        else MASK
        if isinstance(value, str) and SECRET_NAME.search(name)
        else value
        for name, value in settings.items()
    }


def mask(value: Any, secrets: Iterable[str]) -> Any:
    """A copy of JSON-like data in which no text holds a secret."""
    if isinstance(value, str):
        for secret in secrets:
            value = value.replace(secret, MASK)
        return value
    if isinstance(value, Mapping):
        return {name: mask(inner, secrets) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [mask(inner, secrets) for inner in value]
    return value


def _line(event: Event) -> bytes:
    try:
        return _encode(event) + b"\n"
    except (TypeError, ValueError, OverflowError, RecursionError):
        # Numbers beyond 64 bits, lone surrogates, cycles: a target may send what JSON cannot carry.
        source, kind = (text.encode(errors="backslashreplace").decode() for text in (event.source, event.kind))
        data = {"malformed": ascii(event.data)[:2000]}
        return _encode(msgspec.structs.replace(event, source=source, kind=kind, data=data)) + b"\n"
