"""`chaos report`: of one run, of two, of repeats, of all."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
from judge.histories import Tape

from chaos.archive import NAME, Archive
from chaos.cli import main
from chaos.cli.judging import replay_command
from chaos.errors import Exit
from chaos.history import History
from cli.recorded import record


def ran(folder: Path, *, steps: int = 5, **more: object) -> Path:
    """The folder of a run that was never run; its job is done."""
    folder.mkdir(parents=True)
    tape = Tape().start(steps=steps).train(1, steps).done(steps)
    begun = tape.events[0]
    data = {**begun.data, "target": "app", "build": {"sources": "s"}, "recipe": "r", "file": "/x/e.yaml", **more}
    tape.events[0] = msgspec.structs.replace(begun, data=data)
    record(folder, tape)
    (folder / "schedule.json").write_text("{}")
    return folder


def test_of_one_run_the_files_are_written_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = ran(tmp_path / "a")
    code = main(["report", str(folder / "journal.jsonl")])
    assert code == main(["judge", str(folder)])
    assert (folder / "report.html").read_text().startswith("<!DOCTYPE html>")
    assert "report " in capsys.readouterr().out


def test_two_runs_are_compared_beside_the_second(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = ran(tmp_path / "a"), ran(tmp_path / "b", steps=9)
    assert main(["report", str(first)]) is not None
    assert main(["report", str(first), str(second)]) == Exit.PASS
    page = (tmp_path / "a-and-b.html").read_text()
    assert 'href="a/report.html"' in page
    assert 'href="b/report.html"' not in page  # it has none
    assert str(tmp_path / "a-and-b.html") in capsys.readouterr().out


def test_a_comparison_goes_where_it_is_wanted(tmp_path: Path) -> None:
    first, second = ran(tmp_path / "runs/a"), ran(tmp_path / "runs/b")
    main(["report", str(first)])
    assert main(["report", str(first), str(second), "--out", str(tmp_path / "x.html")]) == Exit.PASS
    assert 'href="runs/a/report.html"' in (tmp_path / "x.html").read_text()


def test_repeats_of_one_experiment_have_a_page(tmp_path: Path) -> None:
    folders = [str(ran(tmp_path / name)) for name in "abc"]
    assert main(["report", "--repeats", *folders]) == Exit.PASS
    assert "of 3 runs passed" in (tmp_path / "a-x3.html").read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "give one run"),
        (["RUN", "RUN", "RUN"], "give one run"),
        (["--repeats"], "give the runs"),
        (["RUN", "--out", "x"], "--out is for"),
        (["RUN", "--index", "DIR"], "no single ones"),
        (["--index", "DIR/nothing"], "no such folder"),
        (["RUN", "RUN", "--out", "DIR/nothing/x.html"], "No such file"),
    ],
)
def test_a_wrong_call_is_told(words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = str(ran(tmp_path / "a"))
    assert main(["report", *(w.replace("RUN", run).replace("DIR", str(tmp_path)) for w in words)]) == Exit.USAGE
    assert said in capsys.readouterr().err


def test_the_index_holds_every_run_also_those_that_the_store_did_not_know(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["report", str(ran(tmp_path / "a"))])
    ran(tmp_path / "b")
    (tmp_path / "c").mkdir()
    (tmp_path / "c/journal.jsonl").write_bytes(b"x\n")
    assert main(["report", "--index", str(tmp_path)]) == Exit.PASS
    page = (tmp_path / "index.html").read_text()
    assert re.findall(r'href="([^#"]+)"', page) == ["a/report.html"]  # the other has none
    assert page.count("<tr data-state=") == 2
    assert "left out" in capsys.readouterr().out
    with Archive(tmp_path / NAME) as archive:
        assert archive.known() == {"a", "b"}


def test_the_index_knows_the_paths_that_a_target_declares(tmp_path: Path) -> None:
    experiment = Path(__file__).parents[2] / "experiments/control.yaml"
    ran(tmp_path / "a", file=str(experiment), target="trainer")
    assert main(["report", "--index", str(tmp_path)]) == Exit.PASS
    page = (tmp_path / "index.html").read_text()
    assert "checkpoint.rollback" in page
    assert "never proved" in page


def test_the_command_that_runs_it_again_is_in_the_record(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    tape = Tape().start()
    more = {"file": str(tmp_path / "x y.yaml"), "overrides": {"defect": "a b"}, "seed": 7, "lab": False}
    tape.events[0] = msgspec.structs.replace(tape.events[0], data={**tape.events[0].data, **more})
    said = replay_command(History(tape.events))
    assert said == "chaos run 'x y.yaml' --seed 7 --set 'defect=a b' --no-lab"
    assert replay_command(History()) == ""
