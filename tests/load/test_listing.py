"""What a target file says of its recovery paths is read without an experiment, its driver, or its settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.errors import SpecError
from chaos.load.listing import load_listing
from chaos.paths import Listed, Spot

from .conftest import GOOD, TARGET, Load


def written(folder: Path, text: str) -> Path:
    (folder / "target.yaml").write_text(text)
    return folder / "target.yaml"


def mistakes(file: Path) -> list[str]:
    with pytest.raises(SpecError) as caught:
        load_listing(file)
    return [str(problem).removeprefix(f"{file}:") for problem in caught.value.problems]


def test_names_and_code_are_listed_with_their_lines(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        "name: sample\nsources: [src, '${x}']\nrecovery-paths:\n  - a.b\n"
        "  - {name: a.c, code: 'src/train.py:Trainer.resume'}\n  - name: a.d\n    code: src/train.py:40-62\n",
    )
    listing = load_listing(file, lambda path: path.name)
    assert listing.name == "sample"
    assert listing.file == file
    assert listing.sources == ("src", "${x}")
    assert listing.paths == (
        Listed(name="a.b", spot=Spot("target.yaml", 4)),
        Listed(name="a.c", spot=Spot("target.yaml", 5), code="src/train.py:Trainer.resume"),
        Listed(name="a.d", spot=Spot("target.yaml", 6), code="src/train.py:40-62"),
    )


def test_a_folder_means_the_target_file_in_it(tmp_path: Path) -> None:
    file = written(tmp_path, "name: sample\n")
    assert load_listing(tmp_path).file == file
    assert load_listing(tmp_path).sources == (".",)


def test_what_others_read_is_left_alone(tmp_path: Path) -> None:
    assert load_listing(written(tmp_path, TARGET)).paths[0].name == "checkpoint.rollback"
    assert load_listing(written(tmp_path, "name: sample\nmembers: 7\nnonsense: '${'\n")).paths == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("driver: process\n", ["1:1: the target file lacks `name`"]),
        ("- name\n", ["1:1: the target file is a mapping, not a list"]),
        ("name: x\nrecovery-paths: a.b\n", ["2:17: `recovery-paths` is a list, not `a.b`"]),
        ("name: x\nrecovery-paths: [a.b, 7]\n", ["2:23: a word is meant, not `7`"]),
        ("name: x\nrecovery-paths: [a.b, a.b]\n", ["2:23: `a.b` is given twice (first in line 2; remove one)"]),
        ("name: x\nrecovery-paths: [{code: 'a.py:f'}]\n", ["2:18: a recovery path lacks `name`"]),
        (
            "name: x\nrecovery-paths:\n  - {name: a.b, coed: 'a.py:f'}\n  - {name: a.c, code: a.py}\n",
            ["3:17: unknown key `coed` in a recovery path (did you mean `code`?)", "4:23: `a.py` is no function or"],
        ),
    ],
)
def test_every_mistake_is_told_with_its_place(tmp_path: Path, text: str, expected: list[str]) -> None:
    found = mistakes(written(tmp_path, text))
    assert len(found) == len(expected)
    assert all(told.startswith(start) for told, start in zip(found, expected, strict=True)), found


@pytest.mark.parametrize("code", ["a.py:", "a.py:0", "a.py:3-", "a.py:f()", ":f"])
def test_code_is_a_function_or_lines_of_a_file(tmp_path: Path, code: str) -> None:
    assert mistakes(written(tmp_path, f"name: x\nrecovery-paths: [{{name: a.b, code: '{code}'}}]\n"))


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="cannot be read"):
        load_listing(tmp_path / "target.yaml")


def test_an_experiment_reads_the_same_entries(load: Load) -> None:
    code = "[{name: checkpoint.rollback, code: 'a.py:f'}, a.b]"
    text = TARGET.replace("[checkpoint.rollback]", code)
    assert load(GOOD, text).target.recovery_paths == ("checkpoint.rollback", "a.b")
