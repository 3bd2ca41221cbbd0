"""The verb `paths`."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from chaos.cli import main
from chaos.errors import Exit
from chaos.paths import Inventory

PROGRAM = "from chaos.inside import recovery_path\n\n\nwith recovery_path('a.b'):\n    pass\n"
RAISES = "\n\nraise SystemExit('a target is never run or imported here')\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "main.py").write_text(PROGRAM + RAISES)
    (tmp_path / "job" / "target.yaml").write_text("name: sample\ndriver: process\nrecovery-paths: [a.b]\n")
    return tmp_path


@pytest.mark.parametrize("named", ["job", "job/target.yaml"])
def test_a_target_is_listed_with_places_that_can_be_followed(
    folder: Path, named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["paths", named]) == Exit.PASS
    assert capsys.readouterr().out == "sample: 1 recovery path, nothing to mend\n  a.b  job/main.py:4\n"


def test_what_is_to_be_mended_fails(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "job" / "target.yaml").write_text("name: sample\ndriver: process\nrecovery-paths: [a.c]\n")
    assert main(["paths", "job"]) == Exit.FAIL
    out = capsys.readouterr().out
    assert "job/main.py:4: `a.b` is not listed: add `- a.b` under `recovery-paths` of job/target.yaml" in out
    assert "job/target.yaml:3: `a.c` is listed, and no code enters it" in out


def test_as_json_it_can_be_read_again(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["paths", "job", "--json"]) == Exit.PASS
    inventory = msgspec.json.decode(capsys.readouterr().out, type=Inventory)
    assert inventory.target == "sample"
    assert [str(path.where) for path in inventory.paths] == ["job/main.py:4"]


def test_sarif_is_written_whole_into_a_folder_that_is_made(folder: Path) -> None:
    assert main(["paths", "job", "--sarif", "out/paths.sarif"]) == Exit.PASS
    assert json.loads((folder / "out" / "paths.sarif").read_text())["version"] == "2.1.0"
    assert [path.name for path in (folder / "out").iterdir()] == ["paths.sarif"]


def test_a_place_that_cannot_be_written_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["paths", "job", "--sarif", "job/main.py/x"]) == Exit.USAGE
    assert "job/main.py/x" in capsys.readouterr().err


def test_names_cannot_steer_the_terminal(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "job" / "main.py").write_text(PROGRAM.replace("'a.b'", "'a.\\x1b[2Jb'"))
    assert main(["paths", "job"]) == Exit.FAIL
    assert "\x1b" not in capsys.readouterr().out


@pytest.mark.parametrize("named", ["nowhere", "job/main.py"])
def test_what_is_no_target_is_told(folder: Path, named: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["paths", named]) == Exit.USAGE
    assert named in capsys.readouterr().err


def test_a_source_that_is_not_there_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "job" / "target.yaml").write_text("name: sample\ndriver: process\nsources: [src]\n")
    assert main(["paths", "job"]) == Exit.USAGE
    assert "there is no src" in capsys.readouterr().err
