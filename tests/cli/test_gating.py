"""The verb `gate`: exit codes, where evidence comes from, the files that it writes."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from bench.stored import evidence, many, project, store

from chaos.archive import NAME, Archive
from chaos.cli import main
from chaos.errors import Exit
from chaos.verdict import Outcome


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    project(tmp_path)
    return tmp_path


def first(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out.splitlines()[0]


def test_open_blocked_no_data_and_usage_have_their_exit_codes(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gate"]) == 3
    assert first(capsys) == "GATE NO DATA: no run is on record, so nothing is proved"
    store(here / "runs" / NAME, [evidence(here, n, "link.p0") for n in range(2)])
    assert main(["gate"]) == 1
    assert first(capsys) == "GATE BLOCKED: 0 of 1 recovery path proved; 1 few"
    with Archive(here / "runs" / NAME, write=True) as archive:
        archive.add(evidence(here, 2, "link.p0"))
    assert main(["gate"]) == 0
    assert first(capsys) == "GATE OPEN: 1 of 1 recovery path proved"
    assert main(["gate", "--catalogue", "none.yaml"]) == 2
    assert "none.yaml: there is no such catalogue" in capsys.readouterr().err


def test_who_has_no_catalogue_yet_is_told_what_one_is(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for more in ([], ["--add", "counter:a=b.yaml"]):
        assert main(["gate", "--catalogue", "nowhere.yaml", *more]) == 2
        assert capsys.readouterr().err.startswith(
            "nowhere.yaml: there is no such catalogue (it says what must be proved"
        )


def test_an_empty_store_is_no_data(here: Path) -> None:
    store(here / "runs" / NAME, [])
    assert main(["gate"]) == 3


def test_a_file_that_is_no_store_is_a_mistake_of_the_call(here: Path) -> None:
    (here / "x.sqlite").write_text("no store at all, and longer than nothing")
    assert main(["gate", "--store", "x.sqlite"]) == 2


def test_stores_are_taken_together(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store(here / "a.sqlite", [evidence(here, n, "link.p0") for n in (0, 1)])
    store(here / "b.sqlite", [evidence(here, n, "link.p0") for n in (1, 2)])
    assert main(["gate", "--store", "a.sqlite"]) == 1
    both = ["gate", "--store", "a.sqlite", "--store", "b.sqlite"]
    # Of run 1 the stores tell two times of start: nobody knows which is true.
    assert main(both) == 1
    assert "run-1: it is told of in two ways" in capsys.readouterr().err
    (here / "b.sqlite").unlink()
    with Archive(here / "a.sqlite") as archive:
        (known, _) = archive.runs()
    moved = msgspec.structs.replace(known, folder="/elsewhere/run")
    store(here / "b.sqlite", [moved, evidence(here, 2, "link.p0")])
    assert main(both) == 0


def test_commands_keep_runs_where_the_gate_looks_or_it_is_said(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number, place in enumerate(("fetched/main.sqlite", f"kept/{NAME}")):
        store(here / place, [evidence(here, number, "link.p0")])
    assert main(["gate", "--store", "fetched/main.sqlite", "--store", f"kept/{NAME}"]) == 1
    said = capsys.readouterr()
    assert "--out kept\n" in said.out
    assert "(--store)" not in said.err
    assert main(["gate", "--store", "fetched/main.sqlite"]) == 1
    said = capsys.readouterr()
    assert "--out fetched\n" in said.out
    assert f"what is run is kept in fetched/{NAME}: ask about that as well (--store)" in said.err


def test_commands_name_the_store_and_the_catalogue_that_were_asked_about(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "ci/recovery_paths.yaml").rename(here / "paths.yaml")
    text = (here / "paths.yaml").read_text().replace("../", "")
    (here / "paths.yaml").write_text(text.replace("paths:\n", "paths:\n  # none\n"))
    store(here / "kept" / NAME, [evidence(here, 0, "link.p0")])
    assert main(["gate", "--catalogue", "paths.yaml", "--store", "kept/results.sqlite"]) == 1
    assert "  chaos run experiments/link.p0.yaml --repeat 2 --out kept\n" in capsys.readouterr().out


def test_the_catalogue_is_changed_by_command(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = here / "app/app.py"
    program.write_text(program.read_text().replace('"link.p0"', '"link.renamed"'))
    target = here / "app/target.yaml"
    target.write_text(target.read_text().replace("link.p0", "link.renamed"))
    changed = [msgspec.structs.replace(evidence(here, n, "link.p0"), paths=("link.renamed",)) for n in range(3)]
    store(here / "runs" / NAME, changed)
    assert main(["gate"]) == 1
    command = "chaos gate --add app:link.renamed=experiments/link.p0.yaml --remove app:link.p0"
    assert f"To open it:\n  {command}\n" in capsys.readouterr().out
    assert main(command.split()[1:]) == 0
    assert main(["gate"]) == 0


def test_an_edited_journal_blocks(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store(here / "runs" / NAME, [evidence(here, n, "link.p0") for n in range(4)])
    assert main(["gate"]) == 0
    folder = here / "runs/run-3"
    folder.mkdir()
    (folder / "journal.jsonl").write_text("not what was judged")
    assert main(["gate"]) == 1
    assert "edited" in capsys.readouterr().out
    (folder / "journal.jsonl").unlink()
    (folder / "journal.jsonl").mkdir()  # cannot be read
    assert main(["gate"]) == 1


def test_the_files_that_are_asked_for_are_written(here: Path) -> None:
    store(here / "runs" / NAME, [evidence(here, n, "link.p0") for n in range(3)])
    names = ("junit", "markdown", "json", "sarif", "badge")
    words = [word for name in names for word in (f"--{name}", f"out/{name}")]
    assert main(["gate", "-q", *words]) == 0
    assert {p.name for p in (here / "out").iterdir()} == set(names)
    decision = json.loads((here / "out/json").read_text())
    assert (decision["verdict"], decision["rulings"][0]["runs"]) == ("open", ["run-2", "run-1", "run-0"])
    (here / "file").write_text("")
    assert main(["gate", "-q", "--badge", "file/badge.svg"]) == 2


def test_code_scanning_shows_what_blocks_at_its_line(here: Path) -> None:
    program = here / "app/app.py"
    store(here / "runs" / NAME, [evidence(here, n, "link.p0") for n in range(2)])
    program.write_text(program.read_text() + '    with recovery_path("link.more"):\n        pass\n')
    assert main(["gate", "-q", "--sarif", "out.sarif"]) == 1
    (log,) = json.loads((here / "out.sarif").read_text())["runs"]
    places = {
        (
            result["ruleId"],
            result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"],
            result["locations"][0]["physicalLocation"]["region"]["startLine"],
        )
        for result in log["results"]
    }
    assert places == {
        ("unproved-recovery-path", "app/app.py", 5),
        ("unproved-recovery-path", "app/app.py", 7),
        ("unlisted-recovery-path", "app/app.py", 7),
    }


def test_what_the_last_release_had_is_read_from_a_file(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store(here / "runs" / NAME, [evidence(here, n, "link.p0") for n in range(3)])
    assert main(["paths", "app", "--json"]) == 0
    (here / "before.json").write_text(capsys.readouterr().out)
    assert main(["gate", "--since", "before.json"]) == 0
    assert "since the last release appeared: nothing" in capsys.readouterr().out
    (here / "before.json").write_text("{}")
    assert main(["gate", "--since", "before.json"]) == 2
    assert main(["gate", "--since", "none.json"]) == 2


@pytest.mark.slow
def test_ten_thousand_runs_are_judged_right(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    project(here, paths=40, repeats=5)
    good = list(many(here, 10_000, 40))
    failed = msgspec.structs.replace(good[4_321], outcome=Outcome.FAIL, exit=Exit.FAIL)
    store(here / "runs" / NAME, [*good[:4_321], failed, *good[4_322:]])
    assert main(["gate", "--json", "out.json"]) == 1
    assert first(capsys) == "GATE BLOCKED: 39 of 40 recovery paths proved; 1 flaky"
    rulings = json.loads((here / "out.json").read_text())["rulings"]
    assert (rulings[0]["name"], rulings[0]["against"]) == ("link.p1", ["run-4321"])
    assert rulings[1]["runs"][0] == "run-9960"  # the newest of link.p0
    assert "1 of 250 runs of link.p1 on this build did not pass" in rulings[0]["why"]["detail"]
