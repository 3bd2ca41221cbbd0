"""A release in a repository of its own: its new recovery path shuts the gate, and the printed commands open it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from chaos.doctor import examine
from chaos.registry import installed
from gate.sample import Sample, commands

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


@pytest.fixture
def sample(tmp_path: Path) -> Sample:
    lab = next(row for row in examine(installed().driver("process")()) if row.name == "lab")
    if not lab.ok:
        pytest.skip(lab.detail)
    return Sample(tmp_path)


def test_a_new_path_shuts_the_gate_and_the_printed_commands_open_it(sample: Sample) -> None:
    empty = sample.shell("chaos gate")
    assert (empty.returncode, "GATE NO DATA" in empty.stdout) == (3, True), empty.stderr
    for command in commands(empty.stdout):
        assert sample.shell(command).returncode == 0
    first = sample.shell("chaos gate")
    assert (first.returncode, first.stdout.splitlines()[0]) == (0, "GATE OPEN: 1 of 1 recovery path proved")

    assert sample.shell("chaos paths target --json > before.json").returncode == 0
    line = sample.release()
    second = sample.shell("chaos gate --since before.json")
    assert second.returncode == 1, second.stderr
    assert f"counter:counter.resume   new          declared at target/counter.py:{line}, appeared" in second.stdout
    assert "counter:counter.restart  other-build  1 run of another build" in second.stdout
    asked = commands(second.stdout)
    assert asked == [
        "chaos gate --add counter:counter.resume=experiments/killed.yaml",
        "chaos run experiments/killed.yaml",
    ]
    for command in asked:
        done = sample.shell(command)
        assert done.returncode == 0, done.stdout + done.stderr
    third = sample.shell("chaos gate")
    assert (third.returncode, third.stdout.splitlines()[0]) == (0, "GATE OPEN: 2 of 2 recovery paths proved")
    assert "# who restarts it" in (sample.folder / "ci/recovery_paths.yaml").read_text()


def test_a_changed_journal_shuts_the_gate_until_it_is_put_back(sample: Sample) -> None:
    assert sample.shell("chaos run -q experiments/killed.yaml").returncode == 0
    assert sample.shell("chaos gate").returncode == 0
    (journal,) = (p for p in sample.folder.glob("runs/*/journal.jsonl") if not p.parent.is_symlink())
    was = journal.read_bytes()
    journal.write_bytes(was.replace(b"counter.restart", b"counter.restarx"))
    edited = sample.shell("chaos gate")
    assert edited.returncode == 1
    assert "counter:counter.restart  edited" in edited.stdout
    journal.write_bytes(was)
    assert sample.shell("chaos gate").returncode == 0


def test_a_folder_of_runs_is_judged_by_its_journals(sample: Sample) -> None:
    assert sample.shell("chaos run -q experiments/killed.yaml").returncode == 0
    (store,) = sample.folder.glob("runs/results.sqlite")
    store.unlink()
    for verdict in sample.folder.glob("runs/*/verdict.json"):
        verdict.write_text("{}")
    assert sample.shell("chaos gate").returncode == 3
    judged = sample.shell("chaos gate --runs runs --badge out/badge.svg --junit out/junit.xml")
    assert judged.returncode == 0, judged.stderr
    assert "1/1 proved" in (sample.folder / "out/badge.svg").read_text()
    assert sample.shell("chaos gate").returncode == 0  # it is in the store now


def test_a_row_that_was_changed_by_hand_shuts_a_gate_that_verifies(sample: Sample) -> None:
    assert sample.shell("chaos run -q experiments/killed.yaml").returncode == 0
    assert sample.shell("chaos gate --verify").returncode == 0
    with sqlite3.connect(sample.folder / "runs/results.sqlite") as store:
        (row,) = store.execute("select evidence from runs").fetchone()
        assert b'"rpo.steps":' in row
        store.execute("update runs set evidence = ?", (row.replace(b'"rpo.steps":', b'"rpo.samples":'),))
    store.close()
    assert sample.shell("chaos gate").returncode == 0  # the journal is the one that was judged
    verified = sample.shell("chaos gate --verify")
    assert (verified.returncode, "counter:counter.restart  edited" in verified.stdout) == (1, True), verified.stdout
    copied = sample.shell("cp -r runs/latest/. runs/again && chaos gate --runs runs")
    assert copied.returncode == 1
    assert "told of in two ways" in copied.stderr
