from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from chaos.history import History
from chaos.report.files import write, write_junit
from chaos.report.record import read
from chaos.result import Result


def test_three_files_are_written_and_no_draft_stays(result: Result, history: History, tmp_path: Path) -> None:
    written = write(tmp_path, result, history)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["junit.xml", "report.html", "verdict.json"]
    assert read(written.verdict).checks == result.checks
    assert ElementTree.parse(written.junit).getroot().tag == "testsuites"
    assert written.report.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_writing_again_replaces_them(result: Result, red: Result, history: History, tmp_path: Path) -> None:
    write(tmp_path, result, history)
    written = write(tmp_path, red, history)
    assert read(written.verdict).outcome is red.outcome


def test_repeats_go_into_one_junit_file(result: Result, history: History, tmp_path: Path) -> None:
    write_junit(tmp_path / "junit.xml", ((result, history) for _ in range(3)))
    assert len(ElementTree.parse(tmp_path / "junit.xml").findall("testsuite")) == 3
