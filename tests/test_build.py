"""Which build is tested: every file of the target counts, and nothing else does."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from chaos.build import build_of, files
from chaos.errors import SpecError


@pytest.fixture
def target(tmp_path: Path) -> Path:
    folder = tmp_path / "repo" / "targets" / "app"
    (folder / "worker").mkdir(parents=True)
    (folder / "target.yaml").write_text("name: app\n")
    (folder / "main.py").write_text("print(1)\n")
    (folder / "worker" / "loop.py").write_text("print(2)\n")
    return folder / "target.yaml"


def sources(target: Path, *of: str) -> str:
    return build_of(target, of or (".",)).sources


CHANGES: dict[str, Callable[[Path], object]] = {
    "a line of code": lambda f: (f / "worker" / "loop.py").write_text("print(3)\n"),
    "a default setting": lambda f: (f / "target.yaml").write_text("name: app\nsettings: {a: 1}\n"),
    "a new file": lambda f: (f / "more.py").write_text(""),
    "a file less": lambda f: (f / "main.py").unlink(),
    "another name": lambda f: (f / "main.py").rename(f / "other.py"),
    "a package that is called as outputs are": lambda f: put(f / "dist" / "mesh.py"),
    "contents that changed places": lambda f: [
        (f / "main.py").write_text("print(2)\n"),
        (f / "worker" / "loop.py").write_text("print(1)\n"),
    ],
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_another_build(target: Path, change: Callable[[Path], object]) -> None:
    before = sources(target)
    change(target.parent)
    assert sources(target) != before


def put(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("x")


REMAINS: dict[str, Callable[[Path], object]] = {
    "compiled modules": lambda f: put(f / "__pycache__" / "main.pyc"),
    "an editor's file": lambda f: (f / ".main.py.swp").write_text("x"),
    "runs": lambda f: put(f / "runs" / "journal.jsonl"),
    "a touch": lambda f: (f / "main.py").touch(),
    "a dead link": lambda f: (f / "gone").symlink_to("nowhere"),
}


@pytest.mark.parametrize("change", REMAINS.values(), ids=REMAINS)
def test_the_same_build(target: Path, change: Callable[[Path], object]) -> None:
    before = sources(target)
    change(target.parent)
    assert sources(target) == before


def test_a_clone_elsewhere_is_the_same_build(target: Path, tmp_path: Path) -> None:
    before = sources(target)
    (tmp_path / "repo").rename(tmp_path / "clone")
    assert sources(tmp_path / "clone" / "targets" / "app" / "target.yaml") == before


def test_sources_outside_the_folder_count_where_they_are_named(target: Path) -> None:
    shared = target.parent.parent / "shared.py"
    shared.write_text("1")
    alone, both = sources(target), sources(target, ".", "../shared.py")
    shared.write_text("2")
    assert sources(target) == alone
    assert sources(target, ".", "../shared.py") != both


def test_a_source_that_is_not_there_is_told_by_name(target: Path) -> None:
    with pytest.raises(SpecError, match=r"`sources`: there is no \.\./gone"):
        files(target, ["../gone"])


def git(folder: Path, *words: str) -> None:
    who = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main"]
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


def test_the_commit_is_known_and_whether_files_differ_from_it(target: Path, tmp_path: Path) -> None:
    assert (build_of(target, ["."]).commit, build_of(target, ["."]).dirty) == ("", False)
    repo = tmp_path / "repo"
    git(repo, "init")
    assert build_of(target, ["."]).commit == ""  # nothing was committed yet
    git(repo, "add", ".")
    git(repo, "commit", "-m", "first")
    clean = build_of(target, ["."])
    assert len(clean.commit) == 40
    assert not clean.dirty
    (target.parent / "main.py").write_text("print(9)\n")
    assert build_of(target, ["."]).dirty


def test_what_lies_behind_a_link_to_a_folder_counts(target: Path, tmp_path: Path) -> None:
    shared, home = tmp_path / "repo" / "shared", target.parent
    shared.mkdir()
    (tmp_path / "repo" / ".git").mkdir()
    (shared / "retry.py").write_text("tries = 3\n")
    (home / "common").symlink_to("../../shared")
    (shared / "round").symlink_to("../targets/app")  # a ring
    before = sources(target)
    assert (shared / "retry.py").resolve() in files(target, ["."])
    (shared / "retry.py").write_text("tries = 0\n")
    assert sources(target) != before


def test_data_elsewhere_behind_a_link_is_not_read(target: Path, tmp_path: Path) -> None:
    put(tmp_path / "data" / "corpus.bin")
    (target.parent / "data").symlink_to(tmp_path / "data")
    assert [f.name for f in files(target, ["."])] == ["main.py", "target.yaml", "loop.py"]


def test_outputs_are_no_sources(target: Path) -> None:
    before = sources(target)
    put(target.parent / "build" / "wheel.json")
    assert sources(target) == before


def test_a_hook_of_another_repository_does_not_lead_there(
    target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("repo", "other"):
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "more").write_text(name)
        git(tmp_path / name, "init")
        git(tmp_path / name, "add", ".")
        git(tmp_path / name, "commit", "-m", "first")
    known = build_of(target, ["."])
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other" / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "other" / ".git" / "index"))
    assert build_of(target, ["."]) == known
    assert not known.dirty
