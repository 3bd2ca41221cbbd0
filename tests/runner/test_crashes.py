"""A harness that is killed, asked to end, or out of disk, in real time."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from chaos.journal import read

TESTS = Path(__file__).parents[1]
pytestmark = pytest.mark.slow


@contextmanager
def harness(folder: Path, *more: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "runner.harness", str(folder), *more]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=TESTS) as process:
        try:
            yield process
        finally:
            process.kill()


def until(process: subprocess.Popen[str], word: str) -> float:
    """The moment in the first line that begins with `word`."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(word):
            return float(line.split()[1])
    raise AssertionError(f"ended without {word}")


def test_the_journal_of_a_killed_harness_reads_up_to_its_last_event(tmp_path: Path) -> None:
    with harness(tmp_path) as process:
        until(process, "landed")
        time.sleep(random.random() / 5)
        process.kill()
        process.wait()
    events = list(read(tmp_path / "journal.jsonl"))
    assert [e.seq for e in events] == list(range(len(events)))
    assert any(e.kind == "fault.landed" for e in events)
    assert time.time() - events[-1].wall < 1.5


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGQUIT])
def test_a_signal_heals_within_a_quarter_of_a_second(tmp_path: Path, signum: signal.Signals) -> None:
    with harness(tmp_path) as process:
        until(process, "landed")
        asked = time.monotonic()
        process.send_signal(signum)
        assert until(process, "heal") - asked < 0.25
        out, _ = process.communicate()
    assert f"interrupted {signum.name}" in out
    *_, last = read(tmp_path / "journal.jsonl")
    assert (last.kind, last.get("reason")) == ("run.ended", "interrupted")


def test_a_full_disk_heals_and_leaves_a_journal_that_reads(tmp_path: Path) -> None:
    with harness(tmp_path, "12000") as process:
        until(process, "heal")
        out, _ = process.communicate()
    assert "error the journal cannot be written" in out
    assert (tmp_path / "journal.jsonl").stat().st_size == 12000  # torn in its last line
    kinds = [e.kind for e in read(tmp_path / "journal.jsonl")]
    assert kinds[0] == "run.started"
    assert "fault.landed" in kinds
