"""Paths of a program that was not changed: which code they are, and whether coverage data saw it run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from chaos.cli.paths import inventory_of
from chaos.errors import SpecError
from chaos.inventory.exercised import exercised, read_lines
from chaos.paths import Inventory, Region, Spot

PROGRAM = """\
import sys


class Trainer:
    def resume(self, path):
        \"\"\"Go on from a checkpoint.\"\"\"
        self.step = 7
        return self.step

    def train(self):
        self.step = 1


def give_up():
    return 1


trainer = Trainer()
if "resume" in sys.argv:
    trainer.resume("x")
else:
    trainer.train()
"""
LISTED = """
- {name: trainer.resume, code: "src/train.py:Trainer.resume"}
- {name: trainer.give_up, code: "src/train.py:give_up"}
- {name: trainer.start, code: "src/train.py:21-22"}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").write_text(PROGRAM)
    return tmp_path


def foreign(folder: Path, listed: str = LISTED, sources: str = "[src]") -> Inventory:
    head = f"name: foreign\ndriver: process\nsources: {sources}\n"
    (folder / "target.yaml").write_text(f"{head}recovery-paths:\n{listed.lstrip()}" if listed else head)
    return inventory_of("target.yaml")


def test_a_function_is_the_one_that_runs_or_it_is_asked_which(folder: Path) -> None:
    (folder / "src" / "more.py").write_text(
        "from typing import overload\n@overload\ndef f(x: int) -> int: ...\ndef f(x):\n    return x\n\n\n"
        "def g():\n    return 1\n\n\ndef g():\n    def h():\n        return 2\n    return h\n"
    )
    listed = [
        f"- {{name: a.{what}, code: 'src/more.py:{code}'}}" for what, code in (("f", "f"), ("g", "g"), ("h", "g.h"))
    ]
    inventory = foreign(folder, "\n".join(listed))
    assert [str(path.where) for path in inventory.paths] == ["src/more.py:4", "target.yaml:6", "src/more.py:13"]
    (problem,) = inventory.problems
    assert problem.endswith("has 2 functions g: name the lines of one, such as 12-15")


def test_a_function_means_the_lines_of_its_body(folder: Path) -> None:
    inventory = foreign(folder)
    assert inventory.problems == ()
    regions = {path.name: path.code for path in inventory.paths}
    assert regions == {
        "trainer.resume": Region(file="src/train.py", first=7, last=8, head=5),
        "trainer.give_up": Region(file="src/train.py", first=15, last=15, head=14),
        "trainer.start": Region(file="src/train.py", first=21, last=22),
    }
    path = inventory.find("trainer.resume")
    assert path is not None
    assert path.declared == (Spot("src/train.py", 5),)
    assert path.listed == Spot("target.yaml", 5)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("src/train.py:Trainer.rescue", "has no function Trainer.rescue"),
        ("src/train.py:resume", "has no function resume; there is Trainer.resume"),
        ("src/train.py:Trainer", "has no function Trainer"),
        ("src/train.py:20-40", "has 22 lines, and no lines 20-40"),
        ("src/train.py:9-7", "no lines 9-7"),
        ("src/other.py:f", "there is no src/other.py"),
        ("../elsewhere.py:f", "there is no ../elsewhere.py"),
    ],
)
def test_code_that_is_not_there_is_a_problem_at_its_line(folder: Path, code: str, reason: str) -> None:
    inventory = foreign(folder, f'- {{name: a.b, code: "{code}"}}\n')
    (problem,) = inventory.problems
    assert problem.startswith("target.yaml:5: `a.b`: ")
    assert reason in problem


def test_code_outside_of_the_sources_is_a_problem(folder: Path) -> None:
    (folder / "other.py").write_text("def f():\n    pass\n")
    (problem,) = foreign(folder, '- {name: a.b, code: "other.py:f"}\n').problems
    assert "none of the target's `sources`" in problem


def test_a_handler_in_such_code_is_declared(folder: Path) -> None:
    (folder / "src" / "train.py").write_text(
        "def ask(store, default):\n    try:\n        return store.get(1)\n    except OSError:\n        return default\n"
    )
    assert len(foreign(folder, "").undeclared) == 1
    for code in ("ask", "4-5", "5"):
        assert foreign(folder, f'- {{name: a.b, code: "src/train.py:{code}"}}\n').undeclared == ()


def test_a_handler_that_calls_such_code_is_declared(folder: Path) -> None:
    (folder / "src" / "train.py").write_text(
        "def older():\n    return 1\n\n\n"
        "def ask(store):\n    try:\n        return store.get(1)\n    except OSError:\n        return older()\n"
    )
    assert len(foreign(folder, "").undeclared) == 1
    assert foreign(folder, '- {name: a.b, code: "src/train.py:older"}\n').undeclared == ()


def test_a_path_was_taken_where_a_line_of_it_was_run(folder: Path) -> None:
    inventory = foreign(folder)
    file = str(folder / "src" / "train.py")
    taken = exercised(inventory, {file: frozenset({5, 7, 14})}, folder)
    assert taken == {"trainer.give_up": False, "trainer.resume": True, "trainer.start": False}
    assert not any(exercised(inventory, {}, folder).values())


def test_the_line_of_a_def_alone_is_no_run_of_it(folder: Path) -> None:
    ran = {str(folder / "src" / "train.py"): frozenset({5, 6, 14})}
    assert not any(exercised(foreign(folder), ran, folder).values())


def test_data_of_another_machine_is_matched_by_the_end_of_the_path(folder: Path) -> None:
    inventory = foreign(folder)
    assert exercised(inventory, {"/app/src/train.py": frozenset({7})}, folder)["trainer.resume"]
    two = {"/app/src/train.py": frozenset({7}), "/old/src/train.py": frozenset({7})}
    assert not exercised(inventory, two, folder)["trainer.resume"]


def test_json_of_coverage_is_read(folder: Path) -> None:
    report = {"meta": {}, "files": {"src/train.py": {"executed_lines": [1, 7], "summary": {}}}}
    (folder / "coverage.json").write_text(json.dumps(report))
    assert read_lines([folder / "coverage.json"]) == {str(folder / "src/train.py"): frozenset({1, 7})}


@pytest.mark.parametrize("content", [b"", b"{}", b'{"files": {}}', b"SQLite format 3\0", b"nonsense"])
def test_what_is_no_coverage_data_is_refused(folder: Path, content: bytes) -> None:
    (folder / "data").write_bytes(content)
    with pytest.raises(SpecError, match="coverage"):
        read_lines([folder / "data"])


def test_data_that_is_not_there_is_refused(folder: Path) -> None:
    with pytest.raises(SpecError, match="No such file"):
        read_lines([folder / ".coverage"])


@pytest.mark.slow
def test_runs_of_a_real_program_are_combined(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from chaos.cli import main

    foreign(folder)
    for number, argument in enumerate(("start", "resume")):
        command = [sys.executable, "-m", "coverage", "run", f"--data-file=data.{number}", "src/train.py", argument]
        subprocess.run(command, check=True, cwd=folder, env={**os.environ, "COVERAGE_PROCESS_START": ""})
    assert main(["paths", "target.yaml", "--coverage", "data.0"]) == 0
    assert "1 of 3 paths with `code:` were run" in capsys.readouterr().out
    assert main(["paths", "target.yaml", "--json", "--coverage", "data.0", "--coverage", "data.1"]) == 0
    told = json.loads(capsys.readouterr().out)["exercised"]
    assert told == {"trainer.give_up": False, "trainer.resume": True, "trainer.start": True}
