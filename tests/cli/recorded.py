"""Runs that were not run."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec
from judge.histories import Tape

from chaos.journal import Journal
from chaos.judge import Contract


def record(folder: Path, tape: Tape) -> None:
    """A run's folder, judged by whether its job was done."""
    contract = msgspec.json.encode(Contract(experiment="e", title="E"))
    (folder / "contract.json").write_bytes(contract)
    begun, *rest = tape.events
    data = {"contract": hashlib.sha256(contract).hexdigest(), **begun.data}
    (folder / "journal.jsonl").unlink(missing_ok=True)
    journal = Journal(folder / "journal.jsonl")
    for event in (msgspec.structs.replace(begun, data=data), *rest):
        journal.append(event)
    journal.close()
