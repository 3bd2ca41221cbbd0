"""Judge one synthetic run in a process of its own: `python -m tests.bench.judging FOLDER COUNT` prints what it took."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from chaos.history import History
from chaos.journal import read
from chaos.judge import Contract, judge
from chaos.load import load_experiment
from chaos.registry import Registry
from chaos.verdict import Outcome

from . import synthetic
from .place import ROOT
from .processes import memory


def main(folder: Path, count: int) -> None:
    """Write, read and judge; all invariants that there are."""
    path = folder / f"{count}.jsonl"
    synthetic.write(path, count)
    registry = Registry()
    invariants = [(kind, registry.invariant(kind)()) for kind in registry.kinds("invariants")]
    contract = Contract.of(load_experiment(ROOT / "experiments/kill_worker.yaml"))
    began = time.process_time()
    history = History(read(path))
    loaded = time.process_time()
    result = judge(contract, history, invariants)
    judged = time.process_time()
    size = path.stat().st_size
    path.unlink()
    others = [f"{c.name}: {c.verdict.reason}" for c in result.checks if c.verdict.outcome is not Outcome.PASS]
    figures = {"events": len(history), "read": loaded - began, "judge": judged - loaded, "bytes": size}
    print(json.dumps({**figures, "peak": memory(os.getpid(), "VmHWM"), "checks": len(result.checks), "others": others}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
