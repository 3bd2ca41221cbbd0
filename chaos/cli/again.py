"""Verbs that read a recorded run: judge, report."""

from __future__ import annotations

import argparse
from pathlib import Path

from chaos.cli.judging import judge_folder, show, write_reports
from chaos.errors import JournalError


def main(call: argparse.Namespace) -> int:
    """`judge` prints the summary; `report` also writes the files again."""
    folder = Path(call.run)
    folder = folder.parent if folder.is_file() else folder
    if not folder.is_dir():
        raise JournalError(f"{call.run}: no such run; give its folder or its journal.jsonl")
    folder = folder.resolve()
    result, history = judge_folder(folder)
    files = write_reports(folder, result, history, "") if call.verb == "report" else {}
    show(result, history, files)
    return result.exit
