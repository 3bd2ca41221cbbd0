"""`verdict.json`: the result for programs.

Every key is always there, null where a figure is not known; keys are only ever added, `format` grows when one changes:

    format, chaos                       1, and the version of chaos
    experiment, title, seed             what was run
    started, seconds                    Unix time, length
    outcome, exit, headline             "pass" | "fail" | "unknown", the exit code, why in one line
    checks[]                            kind (run | hypothesis | fault | budget | invariant), name, id,
                                        verdict {outcome, reason, evidence[] (event numbers)}, measured {…}
    recoveries[]                        one an episode: terms of RTO in seconds, RPO, see `chaos.result.Recovery`
    efficiency                          wall, goodput, ettr, lasting_steps, repeated_steps
    others                              share of the machine's processor time that other work took meanwhile, 0 to 1
    undo[]                              what a person must undo by hand
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any

import msgspec

import chaos
from chaos.errors import JournalError
from chaos.result import Result

FORMAT = 1


def encode(result: Result) -> bytes:
    """The file's content, indented, in the order of the fields."""
    document = {"format": FORMAT, "chaos": chaos.__version__, **_plain(result)}
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def read(path: Path) -> Result:
    """The result that was written to `path`; JournalError when it is none."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Result)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise JournalError(f"{path}: not a verdict: {error}") from error


def _plain(value: Any) -> Any:
    """Structs as mappings with all their fields: a key that comes and goes is no contract."""
    if isinstance(value, msgspec.Struct):
        names = zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True)
        return {encoded: _plain(getattr(value, name)) for encoded, name in names}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return value.encode(errors="replace").decode() if isinstance(value, str) else value
