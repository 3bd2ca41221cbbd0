"""The verb `trend`: what recoveries cost from build to build, and whether the newest one made it worse."""

from __future__ import annotations

import argparse
import os
import sys

import msgspec

from chaos.cli.evidence import collect
from chaos.cli.gating import sources
from chaos.errors import Exit, SpecError
from chaos.evidence import LOSSES, TERMS
from chaos.registry import did_you_mean
from chaos.trend import Asked, Trends, trends

FIGURES = (*(f"rto.{term}" for term in TERMS), *(f"rpo.{unit}" for unit in LOSSES), "goodput", "ettr")


def main(call: argparse.Namespace) -> int:
    """Compare and print; exit code 1 only where that is asked for, 3 where nothing could be compared."""
    for figure in call.figure:
        if figure not in FIGURES and figure not in ("rto", "rpo"):
            raise SpecError(f"--figure {figure}: no such figure ({did_you_mean(figure, FIGURES)})")
    found = collect(*sources(call))
    for remark in found.remarks:
        print(f"chaos: {remark}", file=sys.stderr)
    asked = Asked(targets=tuple(call.target), experiments=tuple(call.experiment))
    if call.figure:
        asked = msgspec.structs.replace(asked, figures=tuple(call.figure))
    taken = trends(found.runs, asked)
    if call.json:
        print(msgspec.json.format(msgspec.json.encode(taken), indent=2).decode())
    else:
        from chaos.trend.text import text

        sys.stdout.write(text(taken, color=sys.stdout.isatty() and "NO_COLOR" not in os.environ))
    return _exit(taken, call.fail_on_regression)


def _exit(taken: Trends, fail: bool) -> Exit:
    if not taken.tested:
        return Exit.INCONCLUSIVE
    return Exit.FAIL if fail and taken.worse else Exit.PASS
