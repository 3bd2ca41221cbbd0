"""Changing the catalogue by command: lines come and go, all else stays as it was written."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.cli import main
from chaos.errors import SpecError
from chaos.load.gate import load_catalogue
from chaos.load.gate_edit import edit
from gate.test_catalogue import EXPERIMENT, TARGET

BLOCK = """\
# what must be proved
targets: [../app]   # one
paths:
  app:
    # who retries
    link.retry: {experiments: [../experiments/cut.yaml], runs: 2}   # often

    link.drop:
      experiments:
        - ../experiments/cut.yaml   # the usual one
      runs: 1

# for a while
waivers: []
"""
ADDED = "{experiments: [../experiments/cut.yaml]}\n"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for folder in ("app", "experiments", "ci"):
        Path(folder).mkdir()
    Path("app/target.yaml").write_text(TARGET)
    Path("experiments/cut.yaml").write_text(EXPERIMENT)
    Path("experiments/pull.yaml").write_text(EXPERIMENT)
    Path("ci/paths.yaml").write_text(BLOCK)
    return Path("ci/paths.yaml")


def test_an_entry_is_added_below_its_neighbours(file: Path) -> None:
    (said,) = edit(file, ["app:link.new=experiments/cut.yaml"], [])
    assert said == "ci/paths.yaml: app:link.new added, proved by ../experiments/cut.yaml"
    assert file.read_text() == BLOCK.replace("      runs: 1\n", f"      runs: 1\n    link.new: {ADDED}")
    assert [e.path for e in load_catalogue(file).entries] == ["link.retry", "link.drop", "link.new"]


@pytest.mark.parametrize("path", ["link.retry", "link.drop"])
def test_an_experiment_is_added_to_an_entry_in_its_own_style(file: Path, path: str) -> None:
    edit(file, [f"app:{path}=experiments/pull.yaml"], [])
    expected = {
        "link.retry": BLOCK.replace("cut.yaml], runs", "cut.yaml, ../experiments/pull.yaml], runs"),
        "link.drop": BLOCK.replace("usual one\n", "usual one\n        - ../experiments/pull.yaml\n"),
    }
    assert file.read_text() == expected[path]


@pytest.mark.parametrize(
    ("path", "taken"),
    [
        ("link.retry", "    link.retry: {experiments: [../experiments/cut.yaml], runs: 2}   # often\n"),
        ("link.drop", BLOCK[BLOCK.index("    link.drop") : BLOCK.index("\n# for a while")]),
    ],
)
def test_an_entry_is_removed(file: Path, path: str, taken: str) -> None:
    edit(file, [], [f"app:{path}"])
    assert file.read_text() == BLOCK.replace(taken, "")


def test_the_last_entry_goes_with_its_target_and_one_can_come_again(file: Path) -> None:
    edit(file, [], ["app:link.retry", "app:link.drop"])
    assert file.read_text() == (
        "# what must be proved\ntargets: [../app]   # one\npaths:\n    # who retries\n\n# for a while\nwaivers: []\n"
    )
    assert load_catalogue(file).entries == ()
    edit(file, ["app:a=experiments/cut.yaml", "app:b=experiments/cut.yaml"], [])
    assert [e.path for e in load_catalogue(file).entries] == ["a", "b"]


def test_another_target_keeps_its_paths_when_one_loses_its_last(file: Path) -> None:
    Path("other").mkdir()
    Path("other/target.yaml").write_text(TARGET.replace("app", "other"))
    Path("experiments/far.yaml").write_text(EXPERIMENT.replace("app", "other"))
    text = "targets: [../app, ../other]\npaths:\n  app: {a: {experiments: [../experiments/cut.yaml]}}\n"
    other = "  other:\n    x: {experiments: [../experiments/far.yaml]}\n"
    file.write_text(text + other)
    edit(file, [], ["app:a"])
    assert file.read_text() == "targets: [../app, ../other]\npaths:\n" + other


def test_a_catalogue_that_lost_its_last_path_says_that_nothing_is_proved(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["gate", "--catalogue", str(file), "--remove", "app:link.retry", "--remove", "app:link.drop"]) == 0
    capsys.readouterr()
    assert main(["gate", "--catalogue", str(file)]) == 3
    assert capsys.readouterr().out.startswith("GATE NO DATA: ")


@pytest.mark.parametrize(
    "text",
    [
        "targets: [../app]",
        "targets: [../app]\npaths:\n",
        "targets: [../app]\npaths: {}\nwaivers: []\n",
        "targets: [../app]\npaths:\n  app:\n",
        "targets: [../app]\npaths:\n  app: {}   # none yet\nwaivers: []\n",
        "waivers: []\npaths:\n    app:\n        a: {experiments: [../experiments/cut.yaml]}\ntargets: [../app]\n",
    ],
)
def test_an_entry_is_added_wherever_there_is_none_yet(file: Path, text: str) -> None:
    file.write_text(text)
    edit(file, ["app:link.new=experiments/cut.yaml"], [])
    assert load_catalogue(file).entries[-1].path == "link.new"


def test_another_target_gets_a_block_of_its_own(file: Path) -> None:
    Path("other").mkdir()
    Path("other/target.yaml").write_text(TARGET.replace("app", "other"))
    Path("experiments/far.yaml").write_text(EXPERIMENT.replace("app", "other"))
    file.write_text(BLOCK.replace("[../app]", "[../app, ../other]"))
    edit(file, ["other:x=experiments/far.yaml"], [])
    assert [e.name for e in load_catalogue(file).entries] == ["app:link.retry", "app:link.drop", "other:x"]


def test_a_name_that_needs_quotes_gets_them(file: Path) -> None:
    edit(file, ["app:yes: no=experiments/cut.yaml"], [])
    assert load_catalogue(file).entries[-1].path == "yes: no"
    edit(file, ["app:a=b=experiments/cut.yaml"], [])
    assert load_catalogue(file).entries[-1].path == "a=b"


@pytest.mark.parametrize(
    ("add", "remove", "said"),
    [
        (["link=experiments/cut.yaml"], [], "a path is written TARGET:PATH"),
        (["app:x"], [], "such as trainer:checkpoint.rollback="),
        (["app:x=experiments/cat.yaml"], [], "there is no experiments/cat.yaml"),
        (["app:link.retry=experiments/cut.yaml"], [], "listed already"),
        (["apf:x=experiments/cut.yaml"], [], "unknown key `apf` in `paths`"),
        ([], ["app:x"], "the catalogue has no such path"),
        ([], ["app"], "a path is written TARGET:PATH"),
        (["app:new=experiments/cut.yaml"], ["app:x"], "the catalogue has no such path"),
    ],
)
def test_what_cannot_be_done_changes_nothing(file: Path, add: list[str], remove: list[str], said: str) -> None:
    with pytest.raises(SpecError) as caught:
        edit(file, add, remove)
    assert said in str(caught.value)
    assert file.read_text() == BLOCK
    assert [p.name for p in Path("ci").iterdir()] == ["paths.yaml"]


def test_a_file_in_braces_is_left_to_a_person(file: Path) -> None:
    text = "targets: [../app]\npaths: {app: {a: {experiments: [../experiments/cut.yaml]}}}\n"
    file.write_text(text)
    with pytest.raises(SpecError, match="by hand"):
        edit(file, [], ["app:a"])
    with pytest.raises(SpecError, match="by hand"):
        edit(file, ["app:b=experiments/cut.yaml"], [])
    assert file.read_text() == text
