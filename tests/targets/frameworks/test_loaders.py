"""A whole run: the epoch that follows the one whose end was saved."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
EXPERIMENT = "experiments/frameworks/stateful_loader_end_of_epoch.yaml"


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_an_epoch_that_the_old_loader_left_out_turns_the_run_red(tmp_path: Path) -> None:
    pytest.importorskip("torchdata")
    command = [sys.executable, "-m", "chaos", "run", EXPERIMENT, "-q", "--no-lab", "--set", "library=as-it-was"]
    done = subprocess.run(
        [*command, "--out", str(tmp_path)], cwd=ROOT, env={**os.environ}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stdout + done.stderr
    (folder,) = [p for p in tmp_path.iterdir() if p.is_dir() and not p.is_symlink()]
    checks = json.loads((folder / "verdict.json").read_text())["checks"]
    assert [c["name"] for c in checks if c["verdict"]["outcome"] == "fail"] == ["exactly-once-data"]
