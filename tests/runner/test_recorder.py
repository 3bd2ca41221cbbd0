"""One order of events, and memory that does not grow."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from chaos.history import Event
from chaos.journal import Journal, read
from chaos.runner.recorder import BYTES_KEPT, KINDS_KEPT, Recorder

pytestmark = pytest.mark.anyio


async def test_the_order_is_that_of_recording_and_the_time_that_of_the_source(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    recorder = Recorder(journal)
    recorder.record("harness", "run.started", {})
    began = anyio.current_time()
    await anyio.sleep(5)
    recorder.record("harness", "b", {})
    recorder.record("worker-0", "a", {}, t=began + 2)
    journal.close()
    assert [(e.seq, e.kind, e.t) for e in read(tmp_path / "j")] == [(0, "run.started", 0), (1, "b", 5), (2, "a", 2)]


async def test_a_time_before_the_run_is_that_of_another_clock(tmp_path: Path) -> None:
    await anyio.sleep(10)
    recorder = Recorder(Journal(tmp_path / "j"))
    began = anyio.current_time()
    recorder.record("harness", "run.started", {})
    await anyio.sleep(5)
    for wrong in (0.0, -1e18, began - 0.1):
        assert recorder.record("worker-0", "a", {}, t=wrong).t == 5


async def test_a_listener_may_record(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    recorder = Recorder(journal)
    heard: list[Event] = []
    recorder.listen(["run.started"], lambda e: heard.append(recorder.record("harness", "echo", {"of": e.seq})))
    recorder.record("harness", "run.started", {})
    recorder.record("harness", "other", {})
    journal.close()
    assert [(e.seq, e.kind) for e in read(tmp_path / "j")] == [(0, "run.started"), (1, "echo"), (2, "other")]
    assert heard[0].get("of") == 0


async def test_recent_events_are_those_of_the_last_seconds(tmp_path: Path) -> None:
    recorder = Recorder(Journal(tmp_path / "j"))
    origin = anyio.current_time()
    for t in (1.0, 3.0, 2.9, 4.0):  # sources differ a little
        recorder.record("w", "k", {}, t=origin + t)
    await anyio.sleep(5)
    assert [e.t for e in recorder.recent("k", 2.05)] == [3.0, 4.0]
    assert [e.t for e in recorder.recent("k", 2.15)] == [3.0, 2.9, 4.0]
    assert len(recorder.recent("k", float("inf"))) == 4
    assert recorder.recent("other", 99.0) == []


async def test_a_long_run_keeps_memory_flat(tmp_path: Path) -> None:
    recorder = Recorder(Journal(tmp_path / "j"))
    text = "x" * 1000
    for number in range(3 * BYTES_KEPT // 1000):
        recorder.record("w", "k", {"n": number, "text": text})
    kept = recorder.recent("k", float("inf"))
    assert 0.8 * BYTES_KEPT < sum(1000 for _ in kept) < BYTES_KEPT
    assert kept[-1].get("n") == 3 * BYTES_KEPT // 1000 - 1
    recorder.record("w", "huge", {"text": text * (BYTES_KEPT // 1000 + 1)})
    assert recorder.recent("huge", float("inf")) == []


async def test_a_flood_of_kinds_keeps_memory_flat(tmp_path: Path) -> None:
    recorder = Recorder(Journal(tmp_path / "j"))
    for number in range(KINDS_KEPT + 100):
        recorder.record("w", f"kind-{number}", {})
    assert sum(bool(recorder.recent(f"kind-{n}", float("inf"))) for n in range(KINDS_KEPT + 100)) == KINDS_KEPT
