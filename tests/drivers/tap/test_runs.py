"""Whole runs of `chaos run` on a shell script: what its file operations trigger, and what they run into."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from chaos.history import History
from chaos.journal import read

from ..conftest import need_user_namespaces

pytestmark = pytest.mark.slow

SCRIPT = """
cd "$CHAOS_DATA"
echo '{"kind": "script.ready"}'
for i in 1 2 3; do
  mkdir $i && echo $i > half && mv half $i/manifest.json || echo "failed $i"
done
echo '{"kind": "job.completed", "step": 1}'
"""
TARGET = {
    "name": "script",
    "driver": "process",
    "nodes": [{"name": "n0"}],
    "members": [
        {
            "name": "a",
            "role": "script",
            "node": "n0",
            "command": ["sh", "-c", SCRIPT],
            "ready": {"event": "script.ready"},
        }
    ],
    "ends": {"role": "script", "codes": [0]},
    "stop-grace": "200ms",
}
SECOND_RENAME = {"file": {"path": "**/manifest.json", "op": "rename", "nth": 2}}


def run(folder: Path, *method: dict[str, Any]) -> tuple[int, History, str]:
    """Exit code, what was recorded, what was said."""
    (folder / "target.yaml").write_text(json.dumps(TARGET))
    (folder / "experiment.yaml").write_text(json.dumps({"target": "target.yaml", "method": list(method)}))
    command = [sys.executable, "-m", "chaos", "run", "experiment.yaml", "--out", "runs"]
    root = str(Path(__file__).parents[3])
    done = subprocess.run(command, cwd=folder, env={**os.environ, "PYTHONPATH": root}, capture_output=True, text=True)
    (out,) = (path for path in (folder / "runs").iterdir() if path.is_dir() and not path.is_symlink())
    return done.returncode, History(read(out / "journal.jsonl")), done.stdout + done.stderr


@pytest.fixture(autouse=True)
def _lab() -> None:
    need_user_namespaces()


def test_a_script_is_frozen_at_its_second_rename(tmp_path: Path) -> None:
    freeze = {"fault": "process.freeze", "members": {"names": ["a"]}, "when": SECOND_RENAME, "hold": "300ms"}
    code, history, text = run(tmp_path, freeze)
    assert code == 0, text
    reached, landed, released = (history.of(kind) for kind in ("file.reached", "fault.landed", "file.released"))
    assert [e.get("path") for e in reached] == ["1/manifest.json", "2/manifest.json", "3/manifest.json"]
    assert reached[1].seq < landed[0].seq < released[1].seq
    assert landed[0].get("evidence")["members"][0]["state"] == "T"


def test_a_fault_may_hit_the_very_operation_that_triggered_it(tmp_path: Path) -> None:
    error = {"fault": "storage.error", "path": "*/manifest.json", "ops": ["rename"], "nth": 1, "errno": "EXDEV"}
    code, history, text = run(tmp_path, {**error, "when": SECOND_RENAME})
    assert code == 0, text
    (landed,) = history.of("fault.landed")
    assert landed.get("evidence")["errno"] == "EXDEV"
    assert history.of("file.reached")[1].seq < landed.seq < history.of("file.reached")[2].seq


def test_a_fault_that_is_armed_and_never_hit_makes_the_run_inconclusive(tmp_path: Path) -> None:
    code, history, text = run(tmp_path, {"fault": "storage.full", "path": "elsewhere/**", "when": {"at": "0s"}})
    assert code == 3, text
    assert "nobody ran into it" in text
    assert not history.of("fault.landed", "fault.healed")


def test_a_trigger_that_never_comes_makes_the_run_inconclusive(tmp_path: Path) -> None:
    when = {"file": {"path": "other.json", "op": "rename"}}
    code, history, text = run(tmp_path, {"fault": "process.kill", "members": {"names": ["a"]}, "when": when})
    assert code == 3, text
    assert history.of("fault.missed")
