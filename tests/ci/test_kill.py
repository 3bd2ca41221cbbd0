"""The check for leftovers must see what is left: programs that leave something, and records that say too much."""

from __future__ import annotations

import ctypes
import json
import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator
from multiprocessing.pool import Pool
from pathlib import Path

import pytest

from ci.kill import Attempt, Outcome, Record, attempt, expected, phase, summary
from ci.traces import KINDS, Place, await_nothing, stand_apart

EVENT = {"t": 0.0, "wall": 0.0, "source": "harness", "data": {}}

LEAVES_NOTHING = "import time; print('up', flush=True); time.sleep(30)"
LEAVES_A_PROCESS = """
import os, time
if os.fork() == 0:
    os.setsid()
    time.sleep(30)
"""
LEAVES_A_FILE = """
import os
open(os.environ["TMPDIR"] + "/forgotten", "w").close()
"""
ENDS_WHEN_ASKED = """
import os, signal, time
signal.signal(signal.SIGQUIT, lambda *_: os._exit(3))
time.sleep(30)
"""


@pytest.fixture(scope="module")
def apart() -> Iterator[Pool]:
    """A process that may call `attempt`."""
    with multiprocessing.get_context("spawn").Pool(1, initializer=stand_apart) as pool:
        yield pool


def start(
    apart: Pool, out: Path, program: str, moment: float | None = None, number: signal.Signals = signal.SIGKILL
) -> Outcome:
    return apart.apply(attempt, (Attempt(1, (sys.executable, "-S", "-c", program), out / "run", moment, number),))


@pytest.mark.slow
def test_a_killed_program_that_leaves_nothing_is_clean(apart: Pool, tmp_path: Path) -> None:
    outcome = start(apart, tmp_path, LEAVES_NOTHING, 0.1)
    assert (outcome.wrong, outcome.code, outcome.judged) == ((), -9, None)
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_an_orphan_is_found_however_it_hides_and_is_gone_before_the_next_attempt(apart: Pool, tmp_path: Path) -> None:
    (left,) = start(apart, tmp_path, LEAVES_A_PROCESS).wrong
    assert left.startswith("process ")
    assert "import os" in left
    assert start(apart, tmp_path / "next", LEAVES_NOTHING, 0.1).wrong == ()


@pytest.mark.slow
def test_a_forgotten_temporary_file_is_found(apart: Pool, tmp_path: Path) -> None:
    assert start(apart, tmp_path, LEAVES_A_FILE).wrong == (f"file {tmp_path}/run/tmp/forgotten",)


@pytest.mark.slow
def test_a_program_that_quits_when_asked_is_not_killed(apart: Pool, tmp_path: Path) -> None:
    outcome = start(apart, tmp_path, ENDS_WHEN_ASKED, 1.0, signal.SIGQUIT)
    assert (outcome.wrong, outcome.code) == ((), 3)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["net", "mnt", "pid", "user"])
def test_a_namespace_that_nobody_is_in_is_counted_as_long_as_it_lives(apart: Pool, kind: str) -> None:
    if not apart.apply(_may_make_namespaces):
        pytest.skip("user namespaces are closed")
    held, released = apart.apply(_hold_a_namespace, (kind,))
    assert f"namespace {kind}" in held
    assert released == []


def _may_make_namespaces() -> bool:
    """Whether `stand_apart` got a user namespace, whose limits are its own to write."""
    try:
        Path("/proc/sys/user/max_uts_namespaces").write_text("100")
    except OSError:
        return False
    return True


def _hold_a_namespace(kind: str) -> tuple[list[str], list[str]]:
    """What is found while an open file holds a namespace whose only process has ended, and afterwards."""
    made, ready = os.pipe()
    held, release = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(release)
        ctypes.CDLL(None).unshare(KINDS[kind])
        if kind == "pid" and os.fork() == 0:  # it exists as a file only once it has a process
            os.read(held, 1)
            os._exit(0)
        os.write(ready, b"!")
        os.read(held, 1)
        os._exit(0)
    os.read(made, 1)
    name = "pid_for_children" if kind == "pid" else kind
    file = os.open(f"/proc/{child}/ns/{name}", os.O_RDONLY)
    for end in (made, ready, held, release):
        os.close(end)
    found = await_nothing(0.3)
    os.close(file)
    return found, await_nothing(2.0)


def test_what_was_added_is_named() -> None:
    before = Place(frozenset({"/"}), frozenset({"lo"}), frozenset())
    later = Place(
        frozenset({"/", "/mnt"}), frozenset({"lo", "veth0"}), frozenset({"/tmp/x"}), frozenset({"/x/chaos-1-a"}),
        frozenset({"loop7 /run/disks/0.ext4"}),
    )  # fmt: skip
    assert before.added(later) == [
        "mount /mnt", "link veth0", "file /tmp/x", "group /x/chaos-1-a", "loop loop7 /run/disks/0.ext4",
    ]  # fmt: skip
    assert later.added(before) == []


def test_a_record_that_was_cut_off_may_prove_nothing() -> None:
    assert expected(()) == (2, 3)
    assert expected(("run.started", "fault.landed")) == (3,)
    assert 0 in expected(("run.started", "run.ended"))
    assert expected(("run.started", "run.interrupted", "run.ended")) == (130,)


def test_the_phase_is_that_of_the_last_turn_of_the_run() -> None:
    assert phase(()) == "before the journal"
    assert phase(("run.started", "member.started")) == "starting"
    assert phase(("run.started", "target.ready", "fault.landed", "step.completed")) == "fault standing"
    assert phase(("run.started", "target.ready", "run.interrupted", "run.ended")) == "steady state"


@pytest.mark.slow
def test_a_journal_with_a_torn_last_line_is_read_up_to_it(tmp_path: Path) -> None:
    journal = write_journal(tmp_path)
    with journal.open("a") as file:
        file.write('{"seq": 2, "t"')
    record = Record.below(tmp_path)
    assert record.kinds == ("run.started", "target.ready")
    assert (record.judged, record.wrong) == (2, ("chaos judge says 2",))  # there is no contract beside it


@pytest.mark.slow
def test_a_journal_that_is_damaged_before_its_end_is_not_clean(tmp_path: Path) -> None:
    journal = write_journal(tmp_path)
    journal.write_text(journal.read_text().replace('"seq": 1', '"seq": 5'))
    assert "event 5 stands where 1 should" in Record.below(tmp_path).wrong[0]


def test_the_summary_counts_what_was_not_clean() -> None:
    good = Outcome(1, 2.5, "starting", 10, -9, 3, 0.001, 0.05, 0.1, ())
    text = summary([good, good._replace(cleaned=1.5, phase="judging", wrong=("link veth0",))])
    assert text.splitlines() == [
        "1 of 2 clean",
        "  where: 1 starting, 1 judging",
        "  the harness ended after: at most 0.001 s",
        "  no process after: median 0.050 s, slowest 0.050 s (allowed 2 s)",
        "  no namespace after: median 0.800 s, slowest 1.500 s (allowed 2 s)",
        "  judged: 2 × 3",
    ]


def write_journal(out: Path) -> Path:
    folder = out / "run"
    folder.mkdir()
    journal = folder / "journal.jsonl"
    kinds = ("run.started", "target.ready")
    journal.write_text("".join(json.dumps({"seq": n, "kind": k, **EVENT}) + "\n" for n, k in enumerate(kinds)))
    return journal
