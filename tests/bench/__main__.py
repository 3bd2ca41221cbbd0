"""`python -m tests.bench`: print the figures, and write them to test-output/bench.json."""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path
from typing import Any

from .figures import Figure, table
from .peer import Peer, find_peer
from .place import Place, chaos
from .processes import BenchError

SECTIONS = (
    "startup",
    "schedule",
    "trigger",
    "abort",
    "journal",
    "judge",
    "cost",
    "toxiproxy",
    "tap",
    "views",
    "hooks",
    "gate",
    "page",
)
OUTPUT = Path("test-output/bench.json")


def main() -> int:
    """Measure the sections asked for; a section that cannot be measured says why, and the others go on."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("sections", nargs="*", choices=[*SECTIONS, []], metavar="SECTION", help=", ".join(SECTIONS))
    call = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends what was started, and removes the files
    OUTPUT.parent.mkdir(exist_ok=True)
    peer = find_peer()
    known = peer if isinstance(peer, Peer) else None
    beside = f"beside Chaos Toolkit {known.version}" if known else f"without the peer: {peer}"
    print(f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; {beside}")
    measured: list[Figure] = []
    gaps: dict[str, str] = {}
    folder = Path(tempfile.mkdtemp(prefix="bench-"))
    try:
        place = Place(folder, known, _options())
        for name in call.sections or SECTIONS:
            began = time.monotonic()
            figures: list[Figure] = []
            try:
                figures.extend(import_module(f"{__package__}.{name}").measure(place))
            except BenchError as error:
                gaps[name] = str(error)
            measured += figures
            print(f"\n{name} ({time.monotonic() - began:.0f} s)\n{table(figures)}")
            if name in gaps:
                print(f"not measured further: {gaps[name]}")
            sys.stdout.flush()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        OUTPUT.write_text(json.dumps(_record(beside, measured, gaps), indent=1))
    missed = [figure.what for figure in measured if figure.met is False]
    print(f"\n{len(measured)} figures in {OUTPUT}; goals missed: {', '.join(missed) or 'none'}")
    return 1 if gaps else 0


def _options() -> tuple[str, ...]:
    """`--no-lab` where this machine has no lab."""
    rows = json.loads(subprocess.run(chaos("doctor", "--json"), check=True, capture_output=True, timeout=60).stdout)
    lab = next(row for row in rows if row["name"] == "lab")
    if lab["ok"]:
        return ()
    print(f"runs of ours go without a lab: {lab['detail']}")
    return ("--no-lab",)


def _record(beside: str, figures: list[Figure], gaps: dict[str, str]) -> dict[str, Any]:
    about = {
        "beside": beside,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "kernel": os.uname().release,
    }
    return {**about, "load": os.getloadavg(), "figures": [figure.plain() for figure in figures], "gaps": gaps}


if __name__ == "__main__":
    sys.exit(main())
