"""From folders of runs to the results store: judged from the journal, each once."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
from judge.histories import Tape

from chaos.archive import NAME, Archive
from chaos.cli.archiving import Skipped, evidence_of, gather, keep, untouched
from chaos.cli.judging import digest, judge_folder
from chaos.errors import Exit
from chaos.evidence import Evidence
from chaos.judge import Contract
from cli.recorded import record


def ran(runs: Path, name: str, **more: object) -> Path:
    """The folder of a run that was never run: control of a job that did what it should."""
    folder = runs / name
    folder.mkdir(parents=True)
    tape = Tape().start()
    begun = tape.events[0]
    data = {**begun.data, "target": "app", "build": {"sources": "s"}, "recipe": "r", **more}
    tape.events[0] = msgspec.structs.replace(begun, data=data)
    tape.add("run.ended", reason="finished", detail="")
    record(folder, tape)
    return folder


def test_folders_are_judged_and_kept_once(tmp_path: Path) -> None:
    ran(tmp_path, "1")
    ran(tmp_path, "2")
    with Archive(tmp_path / NAME, write=True) as archive:
        first = list(gather(tmp_path, archive))
        assert [e.run for e in first if isinstance(e, Evidence)] == ["1", "2"]
        assert list(gather(tmp_path, archive)) == []
        assert archive.known() == {"1", "2"}


def test_a_verdict_file_counts_nothing(tmp_path: Path) -> None:
    folder = ran(tmp_path, "1")
    (folder / "verdict.json").write_text('{"outcome": "pass", "exit": 0}')
    with Archive(tmp_path / NAME, write=True) as archive:
        (evidence,) = gather(tmp_path, archive)
    assert isinstance(evidence, Evidence)
    assert evidence.exit is Exit.INCONCLUSIVE  # its record holds no job that was done


def test_what_is_no_run_is_told_with_its_reason(tmp_path: Path) -> None:
    old, torn, forged = ran(tmp_path, "1"), ran(tmp_path, "2"), ran(tmp_path, "3")
    lines = (old / "journal.jsonl").read_bytes().splitlines(keepends=True)
    (old / "journal.jsonl").write_bytes(lines[0].replace(b'"build"', b'"b"') + b"".join(lines[1:-1]))
    (torn / "journal.jsonl").write_bytes(b"x\n")
    (forged / "contract.json").write_bytes(msgspec.json.encode({"experiment": "e"}))
    empty = ran(tmp_path, "4")
    (empty / "journal.jsonl").write_bytes(b"")
    (tmp_path / "latest").symlink_to("1")
    with Archive(tmp_path / NAME, write=True) as archive:
        skipped = {s.folder.name: s.reason for s in gather(tmp_path, archive) if isinstance(s, Skipped)}
        assert archive.known() == frozenset()
    assert skipped.keys() == {"1", "2", "3", "4"}
    assert "which build" in skipped["1"]
    assert "not an event" in skipped["2"]
    assert "title" in skipped["3"]
    assert skipped["4"] == "the record holds nothing"


def test_a_journal_that_was_changed_is_noticed(tmp_path: Path) -> None:
    folder = ran(tmp_path, "1")
    evidence = evidence_of(folder, *judge_folder(folder))
    assert evidence.journal == digest(folder / "journal.jsonl")
    assert untouched(evidence)
    with (folder / "journal.jsonl").open("ab") as file:
        file.write(b"\n")
    assert not untouched(evidence)
    (folder / "journal.jsonl").unlink()
    assert untouched(evidence)  # removed with its folder: the record stands


def test_a_run_counts_though_it_cannot_be_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = ran(tmp_path, "1")
    (tmp_path / NAME).mkdir()
    keep(folder, *judge_folder(folder))
    assert "not in the results store" in capsys.readouterr().err


def test_the_contract_of_such_a_run_is_readable(tmp_path: Path) -> None:
    contract = msgspec.json.decode((ran(tmp_path, "1") / "contract.json").read_bytes(), type=Contract)
    assert contract.experiment == "e"


@pytest.mark.parametrize(
    ("was", "now", "said"),
    [
        (b'"contract":"', b'"contrakt":"', "by what contract"),
        (b'"build":{"sources":"s"}', b'"build":["s"]', "Expected `object`"),
        (b'"recipe":"r"', b'"overrides":null', "NoneType"),
    ],
)
def test_a_record_that_was_written_by_somebody_else_is_set_aside(
    tmp_path: Path, was: bytes, now: bytes, said: str
) -> None:
    """Without the digest at its end, which nothing compels it to have."""
    journal = ran(tmp_path, "1") / "journal.jsonl"
    ran(tmp_path, "2")
    lines = journal.read_bytes().splitlines(keepends=True)
    assert was in lines[0]
    journal.write_bytes(
        lines[0].replace(was, now) + b"".join(lines[1:-1]) + re.sub(rb',"digest":"\w+"', b"", lines[-1])
    )
    with Archive(tmp_path / NAME, write=True) as archive:
        set_aside, good = gather(tmp_path, archive)
    assert isinstance(set_aside, Skipped)
    assert said in set_aside.reason
    assert isinstance(good, Evidence)


def test_a_record_without_its_own_digest_did_not_end(tmp_path: Path) -> None:
    journal = ran(tmp_path, "1") / "journal.jsonl"
    journal.write_bytes(re.sub(rb'[,]?"digest":"\w+"', b"", journal.read_bytes()))
    with Archive(tmp_path / NAME, write=True) as archive:
        (evidence,) = gather(tmp_path, archive)
    assert isinstance(evidence, Evidence)
    assert evidence.journal == ""
