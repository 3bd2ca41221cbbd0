"""Judge one synthetic run in a process of its own: `python -m tests.bench.judging FOLDER COUNT` prints what it took."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import msgspec

from chaos.cli.judging import CONTRACT, JOURNAL, judge_folder
from chaos.journal import read
from chaos.judge.contract import Asked, Contract
from chaos.load import load_experiment
from chaos.registry import Registry
from chaos.verdict import Outcome

from . import synthetic
from .place import ROOT
from .processes import memory


def main(folder: Path, count: int) -> None:
    """Write, read alone, then judge as `chaos judge` does; all invariants that there are."""
    journal = folder / JOURNAL
    synthetic.write(journal, count)
    (folder / CONTRACT).write_bytes(msgspec.json.encode(contract()))
    began = time.process_time()
    events = sum(1 for _ in read(journal))
    done = time.process_time()
    result, _ = judge_folder(folder)
    judged = time.process_time()
    size = journal.stat().st_size
    journal.unlink()
    others = [f"{c.name}: {c.verdict.reason}" for c in result.checks if c.verdict.outcome is not Outcome.PASS]
    figures = {"events": events, "read": done - began, "judge": judged - done, "bytes": size}
    print(json.dumps({**figures, "peak": memory(os.getpid(), "VmHWM"), "checks": len(result.checks), "others": others}))


def contract() -> Contract:
    registry = Registry()
    contract = Contract.of(load_experiment(ROOT / "experiments/kill_worker.yaml"))
    every = [(kind, registry.invariant(kind)) for kind in registry.kinds("invariants")]
    asked = tuple(Asked(kind=kind, id=cls.id, settings=msgspec.to_builtins(cls())) for kind, cls in every)
    return msgspec.structs.replace(contract, invariants=asked)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
