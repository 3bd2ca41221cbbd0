"""`chaos undo`: heal outside the lab what a dead run left."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from chaos.errors import Exit, SpecError
from chaos.guardian import NAME, Ledger, settle


def main(call: argparse.Namespace) -> int:
    """Undo what the runs owe; 0 when nothing is owed any more, 4 when something could not be undone."""
    failed = False
    for folder in _folders(call.runs):
        ledger = Ledger(str(folder))
        try:
            if not ledger.owed():
                continue
            if not ledger.lock():
                print(f"{folder}: the run or its guardian lives; it heals by itself")
                continue
            owed = ledger.owed()
            left = settle(ledger, "by hand")
        finally:
            ledger.close()
        kept = [debt["id"] for debt, _ in left]
        for debt in owed:
            if debt["id"] not in kept:
                print(f"{folder}: undone: {debt['what']}")
        for debt, reason in left:
            failed = True
            print(f"{folder}: not undone: {debt['what']}: {reason}", file=sys.stderr)
    if not failed:
        print("nothing is left to undo")
    return Exit.HEAL_FAILED if failed else Exit.PASS


def _folders(runs: list[str]) -> list[Path]:
    """Those named, or all below ./runs, also in game days, that ever did something outside their lab."""
    for name in runs:
        if not Path(name).is_dir():
            raise SpecError(f"{name}: no folder of a run; `chaos undo` without a name looks at all in ./runs")
    found = [*Path("runs").glob(f"*/{NAME}"), *Path("runs").glob(f"gameday-*/*/*/{NAME}")]
    named = [Path(name) for name in runs] or sorted(path.parent for path in found if not path.parent.is_symlink())
    return [folder for folder in named if (folder / NAME).exists()]
