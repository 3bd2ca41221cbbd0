"""Runs that were not run."""

from __future__ import annotations

from pathlib import Path

import msgspec
from judge.histories import Tape

from chaos.judge import Contract


def record(folder: Path, tape: Tape) -> None:
    """A run's folder, judged by whether its job was done."""
    (folder / "journal.jsonl").write_bytes(b"".join(msgspec.json.encode(e) + b"\n" for e in tape.events))
    (folder / "contract.json").write_bytes(msgspec.json.encode(Contract(experiment="e", title="E")))
