"""Evidence from several places as one."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest
from bench.stored import store
from trend.test_trends import runs

from chaos.archive import NAME, Archive
from chaos.cli.evidence import collect, contradicted, touched
from chaos.errors import ArchiveError, Exit
from chaos.evidence import Build
from chaos.verdict import Outcome
from cli.test_archiving import ran


def test_a_folder_of_runs_is_judged_once_and_what_is_no_run_is_told(tmp_path: Path) -> None:
    ran(tmp_path, "1")
    (ran(tmp_path, "2") / "journal.jsonl").write_text("nothing\n")
    found = collect([], [tmp_path])
    assert [run.run for run in found.runs] == ["1"]
    (remark,) = found.remarks
    assert remark.startswith(f"{tmp_path / '2'}: set aside: ")
    with Archive(tmp_path / NAME) as archive:
        assert archive.known() == {"1"}
    assert collect([], [tmp_path]).runs == found.runs


def test_what_is_not_there_holds_no_runs_and_is_told(tmp_path: Path) -> None:
    found = collect([tmp_path / "none.sqlite"], [tmp_path / "nowhere"])
    assert found.runs == ()
    assert [remark.partition(": ")[2] for remark in found.remarks] == [
        "no such folder of runs",
        "no results store yet; `chaos run` keeps one",
    ]


def test_a_run_that_lies_in_two_stores_is_one(tmp_path: Path) -> None:
    first, second = runs("a", [1.0, 2.0])
    store(tmp_path / "a.sqlite", [first, second])
    store(tmp_path / "b.sqlite", [msgspec.structs.replace(first, folder="/elsewhere")])
    found = collect([tmp_path / "b.sqlite", tmp_path / "a.sqlite"], [])
    assert [run.run for run in found.runs] == [first.run, second.run]
    assert found.conflicting == frozenset()


def test_a_run_that_two_stores_tell_differently_is_told(tmp_path: Path) -> None:
    (first,) = runs("a", [1.0])
    store(tmp_path / "a.sqlite", [first])
    store(tmp_path / "b.sqlite", [msgspec.structs.replace(first, headline="another")])
    found = collect([tmp_path / "a.sqlite", tmp_path / "b.sqlite"], [])
    assert found.conflicting == {first.run}


def test_a_file_that_is_no_store_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.sqlite").write_text("text, and enough of it to be no empty database")
    with pytest.raises(ArchiveError, match=r"a\.sqlite"):
        collect([tmp_path / "a.sqlite"], [])


def test_a_journal_that_cannot_be_read_is_another_than_was_judged(tmp_path: Path) -> None:
    folder = ran(tmp_path, "1")
    (run,) = collect([], [tmp_path]).runs
    assert not touched(run)
    (folder / "journal.jsonl").unlink()
    assert not touched(run)  # the record stands as it was judged
    (folder / "journal.jsonl").mkdir()
    assert touched(run)


def test_a_run_that_was_copied_counts_once(tmp_path: Path) -> None:
    first = ran(tmp_path, "1")
    for name in ("2", "3"):
        shutil.copytree(first, tmp_path / name)
    found = collect([], [tmp_path])
    assert [run.run for run in found.runs] == ["1"]
    assert found.remarks == tuple(f"{name}: the record of 1, copied: it counts once" for name in ("2", "3"))


def test_a_copy_that_is_told_of_differently_does_not_count(tmp_path: Path) -> None:
    first = msgspec.structs.replace(runs("a", [1.0])[0], journal="digest")
    store(tmp_path / "a.sqlite", [first, msgspec.structs.replace(first, run="copy", paths=("link.other",))])
    found = collect([tmp_path / "a.sqlite"], [])
    assert found.conflicting == {first.run, "copy"}
    assert len(found.runs) == 2


def test_a_row_that_was_changed_by_hand_is_contradicted_by_its_journal(tmp_path: Path) -> None:
    folder = ran(tmp_path, "1")
    (kept,) = collect([], [tmp_path]).runs
    assert kept.exit is Exit.INCONCLUSIVE
    assert not contradicted(kept)
    for change in (
        {"exit": Exit.PASS}, {"outcome": Outcome.PASS}, {"paths": ("link.retry",)}, {"overrides": {"defect": "x"}},
        {"figures": {"rto.total": 0.1}}, {"recipe": "other"}, {"build": Build(sources="other")},
        {"started": kept.started + 86400},
    ):  # fmt: skip
        changed = msgspec.structs.replace(kept, **change)
        assert not touched(changed), "the journal is still the one that was judged"
        assert contradicted(changed), change
    shutil.rmtree(folder)
    assert not contradicted(msgspec.structs.replace(kept, exit=Exit.PASS))
