"""The results store: many writers, nothing lost, nothing changed afterwards, nothing foreign taken for it."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from chaos.archive import FORMAT, Archive
from chaos.errors import ArchiveError, Exit
from chaos.evidence import Build, Evidence
from chaos.verdict import Outcome

RUN = Evidence(
    run="1", folder="/runs/1", experiment="kill", file="/e/kill.yaml", target="app", recipe="r",
    build=Build(sources="s"), started=1.0, outcome=Outcome.PASS, exit=Exit.PASS, headline="all passed",
    paths=("worker.restart",), figures={"rto.total": 1.5},
)  # fmt: skip


def run(name: str, **other: object) -> Evidence:
    return msgspec.structs.replace(RUN, run=name, **other)


def test_what_was_added_is_there_oldest_first(tmp_path: Path) -> None:
    with Archive(tmp_path / "a" / "results.sqlite", write=True) as archive:
        assert archive.add(run("late", started=3.0))
        assert archive.add(run("early", started=2.0))
    with Archive(tmp_path / "a" / "results.sqlite") as archive:
        assert archive.runs() == [run("early", started=2.0), run("late", started=3.0)]
        assert archive.known() == {"early", "late"}


@pytest.mark.parametrize("odd", [{"figures": {"rpo.steps": float("inf")}}, {"headline": "\ud800"}])
def test_what_could_not_be_read_again_is_not_kept(tmp_path: Path, odd: dict[str, object]) -> None:
    with Archive(tmp_path / "r", write=True) as archive:
        with pytest.raises(ArchiveError, match="'odd' cannot be kept"):
            archive.add(run("odd", **odd))
        archive.add(run("1"))
        assert archive.runs() == [run("1")]


def test_runs_are_chosen_by_experiment(tmp_path: Path) -> None:
    with Archive(tmp_path / "r", write=True) as archive:
        for name, target, experiment in [("1", "app", "kill"), ("2", "app", "cut"), ("3", "web", "kill")]:
            archive.add(run(name, target=target, experiment=experiment))
        assert [e.run for e in archive.runs()] == ["1", "2", "3"]
        assert [e.run for e in archive.runs(["kill"])] == ["1", "3"]
        assert [e.run for e in archive.runs(["kill", "cut"])] == ["1", "2", "3"]


def test_a_run_stands_as_it_was_judged_first(tmp_path: Path) -> None:
    with Archive(tmp_path / "r", write=True) as archive:
        assert archive.add(run("1", outcome=Outcome.FAIL, exit=Exit.FAIL))
        assert not archive.add(run("1"))
        assert archive.runs()[0].outcome is Outcome.FAIL


WRITER = """
import sys
from contextlib import closing
from pathlib import Path
import msgspec
from chaos.archive import Archive
from test_archive import run
for i in range(25):
    with Archive(Path(sys.argv[1]), write=True) as archive:
        assert archive.add(run(f"{sys.argv[2]}-{i}"))
"""


@pytest.mark.slow
def test_many_processes_make_and_fill_one_store(tmp_path: Path) -> None:
    here = Path(__file__).parent
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, tmp_path / "r", str(i)], cwd=here, stderr=subprocess.PIPE)
        for i in range(6)
    ]
    for writer in writers:
        _, said = writer.communicate(timeout=50)
        assert writer.returncode == 0, said.decode()
    with Archive(tmp_path / "r") as archive:
        assert archive.known() == {f"{w}-{i}" for w in range(6) for i in range(25)}


def test_no_store_is_an_error_that_says_where_it_comes_from(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match=r"none: no results store; `chaos run` keeps one"):
        Archive(tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_something_else_is_not_taken_for_a_store(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("not a database, and long enough to have a header" * 40)
    (tmp_path / "empty").touch()
    for name, reason in (("text", "not a database"), ("empty", "no results store")):
        with pytest.raises(ArchiveError, match=reason):
            Archive(tmp_path / name)
    with pytest.raises(ArchiveError, match="not a database"):
        Archive(tmp_path / "text", write=True)


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    Archive(tmp_path / "r", write=True).close()
    file = sqlite3.connect(tmp_path / "r")
    file.execute(f"pragma user_version = {FORMAT + 1}")
    file.close()
    for write in (False, True):
        with pytest.raises(ArchiveError, match="newer version"):
            Archive(tmp_path / "r", write=write)


def test_a_damaged_row_is_told_and_never_left_out(tmp_path: Path) -> None:
    with Archive(tmp_path / "r", write=True) as archive:
        archive.add(RUN)
    file = sqlite3.connect(tmp_path / "r", isolation_level=None)
    file.execute("update runs set evidence = ?", (b'{"run":"1"}',))
    file.close()
    with Archive(tmp_path / "r") as archive, pytest.raises(ArchiveError, match="missing required field"):
        archive.runs()


@pytest.mark.parametrize("column", ["run", "target", "experiment"])
def test_a_row_that_holds_another_run_is_told(tmp_path: Path, column: str) -> None:
    path = tmp_path / "results.sqlite"
    with Archive(path, write=True) as archive:
        archive.add(run("1"))
    with closing(sqlite3.connect(path)) as file:
        file.execute(f"update runs set {column} = 'other'")
        file.commit()
    with Archive(path) as archive, pytest.raises(ArchiveError, match="holds another run"):
        archive.runs()


def test_a_store_that_lost_pages_is_told(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    with Archive(path, write=True) as archive:
        for n in range(50):
            archive.add(run(f"{n}"))
    content = bytearray(path.read_bytes())
    content[-4096:-2048] = bytes(2048)
    path.write_bytes(content)
    with pytest.raises(ArchiveError, match="damaged"):
        Archive(path)
