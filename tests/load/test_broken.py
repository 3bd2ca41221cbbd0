"""What is wrong is told completely and in order, whatever the file is made of; nothing ends in a traceback."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from chaos.errors import Problem, SpecError
from chaos.load import load_experiment
from chaos.load.document import MAX_BYTES
from chaos.registry import Registry

from .broken import AT, FREEZE, HEAD, KILL, STEADY, step
from .conftest import GOOD, TARGET, Load, Mistakes


def test_the_file_that_all_rows_depart_from_is_correct(load: Load) -> None:
    assert load(GOOD).method
    assert load(f"{HEAD}{STEADY}method: [{{{KILL}, {AT}}}]").method


def test_all_mistakes_of_a_file_are_told_at_once_and_in_its_order(mistakes: Mistakes) -> None:
    text = GOOD
    for right, wrong in (
        ("tags: [a, b]", "tags: a"),
        ("seed: 7", "sede: 7"),
        ("0.7 of baseline", "0.7 of basline"),
        ("network.partition\n", "network.partion\n"),
        ("hold: 8s", "hold: 8 parsecs"),
        ("{ranks: [1]}", "{ranks: [7]}"),
        ("{steps: 20}", "{stpes: 20}"),
        ("detect: 6s", "detect: -6s"),
        ("[fenced-writer]", "[fenced-writer, no-orphan]"),
        ("at-most: 90%", "at-most: 90 %%"),
        ("wall: 180s", "wall: 180"),
    ):
        assert right in text
        text = text.replace(right, wrong, 1)
    found = mistakes(text)
    places = [tuple(map(int, line.split(":")[1:3])) for line in found]
    assert places == sorted(places)
    assert [line for line, _ in places] == [3, 6, 9, 12, 15, 17, 18, 20, 21, 22, 25, 26]


def test_a_wrong_setting_does_not_hide_what_else_is_wrong(mistakes: Mistakes) -> None:
    found = mistakes(f"""{HEAD}settings: {{nodes: four}}
method:
  - {{{KILL}, when: {{point: nowhere}}}}
  - {{fault: process.kill, members: {{ranks: 9}}, {AT}}}
""")
    assert [line.split(" ")[0] for line in found] == ["sample.yaml:2:19:", "sample.yaml:4:62:", "sample.yaml:5:44:"]


def test_an_unreadable_target_hides_only_what_depends_on_it(mistakes: Mistakes) -> None:
    found = mistakes(f"""target: nowhere.yaml
title: ${{nobody}}
method:
  - {{{FREEZE}, when: {{point: nowhere}}, hold: 1}}
""")
    assert [line.split(" ")[0] for line in found] == ["sample.yaml:1:9:", "sample.yaml:4:80:"]


def test_a_mistyped_required_key_is_one_mistake(mistakes: Mistakes) -> None:
    assert mistakes(f"{HEAD}mehtod: []\n") == [
        "sample.yaml:2:1: unknown key `mehtod` in the experiment (did you mean `method`?)"
    ]


KINDS = ("null", "-1", "[[x]]", "{x: {y: z}}")


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_any_kind_of_value_at_any_place_gives_an_experiment_or_placed_mistakes(
    load: Load, tmp_path: Path, kind: str
) -> None:
    problems: list[Problem] = []
    for source in (GOOD, TARGET):
        for broken in replacements(yaml.safe_load(source), yaml.safe_load(kind)):
            text = json.dumps(broken, indent=1)  # which is YAML
            try:
                load(*((GOOD, text) if source is TARGET else (text, TARGET)))
            except SpecError as error:
                problems += error.problems
    assert len(problems) > 50
    assert [str(problem) for problem in problems if problem.line < 1 or problem.column < 1] == []


def replacements(tree: Any, value: Any) -> Iterator[Any]:
    """The tree with `value` in the place of each of its parts, one at a time."""
    yield value
    if isinstance(tree, dict):
        for key, below in tree.items():
            yield from ({**tree, key: other} for other in replacements(below, value))
    elif isinstance(tree, list):
        for i, below in enumerate(tree):
            yield from ([*tree[:i], other, *tree[i + 1 :]] for other in replacements(below, value))


def test_every_tab_is_told(mistakes: Mistakes) -> None:
    found = mistakes(f"{HEAD}method:\n\t- fault: x\n  \t  when: y\n")
    assert [line.split(" ")[0] for line in found] == ["sample.yaml:3:1:", "sample.yaml:4:3:"]


def test_bytes_that_are_not_utf_8_are_placed(mistakes: Mistakes) -> None:
    assert mistakes(b"title: a\ndescription: caf\xe9\n") == ["sample.yaml:2:17: is not UTF-8 (save it as UTF-8)"]
    assert mistakes("title: a\n".encode("utf-16"))[0].startswith("sample.yaml:1:1: is not UTF-8")


def test_a_file_of_ten_megabytes_is_refused_unread(mistakes: Mistakes) -> None:
    (only,) = mistakes(b"# " + b"x" * (10 << 20))
    assert only.startswith("sample.yaml: is larger than 1 MiB")


def test_the_largest_file_that_is_read_is_read_soon(load: Load) -> None:
    text = f"{HEAD}method: []\n"
    assert load(text + "#" * (MAX_BYTES - len(text))).method == ()


def test_more_mistakes_than_anybody_reads_are_cut_short(mistakes: Mistakes) -> None:
    found = mistakes(f"{HEAD}method: []\n" + "".join(f"key{i}: x\n" for i in range(1000)))
    assert len(found) == 201
    assert found[0].startswith("sample.yaml:3:1: unknown key `key0`")
    assert found[-1] == "sample.yaml: more than 200 mistakes; the rest is not shown"


def test_a_long_word_is_shortened_in_its_message(mistakes: Mistakes) -> None:
    (only,) = mistakes(step(f"fault: {'k' * 5000}", AT))
    assert only.startswith("sample.yaml:3:12: unknown fault `kkk")
    assert len(only) < 300


def test_an_alias_bomb_is_refused(mistakes: Mistakes) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 9)]
    (only,) = mistakes("\n".join(lines))
    assert "aliases expand to more than" in only
    assert only.startswith("sample.yaml:5:")


@pytest.mark.parametrize("text", ["a: " + "[" * 5000, "a: " + "{b: " * 5000, "? " * 3000])
def test_deep_nesting_is_refused(mistakes: Mistakes, text: str) -> None:
    (only,) = mistakes(text)
    assert "deeper than" in only or "no YAML" in only


def test_a_chain_of_aliases_does_not_dig_deeper_than_text_may(mistakes: Mistakes) -> None:
    lines = ["a0: &a0 [x]", *(f"a{i}: &a{i} [*a{i - 1}]" for i in range(1, 400))]
    (only,) = mistakes("\n".join(lines))
    assert "40 levels" in only


def test_a_file_that_is_missing_or_a_folder_is_told(tmp_path: Path, registry: Registry) -> None:
    with pytest.raises(SpecError, match=r"no\.yaml: cannot be read: No such file or directory"):
        load_experiment(tmp_path / "no.yaml", registry=registry)
    with pytest.raises(SpecError, match="is a directory"):
        load_experiment(tmp_path, registry=registry)
    with pytest.raises(SpecError, match="cannot be read: embedded null"):
        load_experiment("a\0b", registry=registry)


# --- the target file


def test_a_target_that_is_missing_is_told_where_it_is_named(mistakes: Mistakes) -> None:
    (only,) = mistakes("title: a\ntarget: nowhere/target.yaml\nmethod: []\n")
    assert only == "sample.yaml:2:9: `nowhere/target.yaml` cannot be read: No such file or directory"


def test_a_target_that_is_a_folder_is_told(mistakes: Mistakes, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (only,) = mistakes("target: folder\nmethod: []\n")
    assert only == "sample.yaml:1:9: `folder` is a directory (name the file in it)"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_target_that_may_not_be_read_is_told(mistakes: Mistakes, tmp_path: Path) -> None:
    (tmp_path / "locked.yaml").touch(mode=0o000)
    (only,) = mistakes("target: locked.yaml\nmethod: []\n")
    assert only == "sample.yaml:1:9: `locked.yaml` cannot be read: Permission denied"


def test_a_target_that_cannot_be_read_is_told(mistakes: Mistakes, tmp_path: Path) -> None:
    (tmp_path / "loop.yaml").symlink_to("loop.yaml")
    (only,) = mistakes("target: loop.yaml\nmethod: []\n")
    assert only == "sample.yaml:1:9: `loop.yaml` cannot be read: Too many levels of symbolic links"


TARGET_ROWS: dict[str, tuple[str, str, str]] = {
    "empty": (TARGET, "", "target.yaml:1:1: the file is empty"),
    "a near miss of a key": (
        "points:",
        "piont:",
        "target.yaml:9:1: unknown key `piont` in the target file (did you mean `points`?)",
    ),
    "an unknown driver": ("driver: process", "driver: proces", "target.yaml:2:9: unknown driver `proces` (did"),
    "no driver": ("driver: process\n", "", "target.yaml:1:1: the target file lacks `driver`"),
    "an undefined variable": (
        "${steps}",
        "${stesp}",
        "target.yaml:13:63: undefined variable `${stesp}`",
    ),
    "a default that is no choice": (
        "[none, no-fencing]",
        "[no-fencing]",
        "target.yaml:4:19: the default `none`",
    ),
    "choices of nothing": (
        "choices: {defect:",
        "choices: {defcet:",
        "target.yaml:4:11: unknown key `defcet` in",
    ),
    "events as a list": (
        "points:\n  checkpoint.before_commit: [generation, step, epoch]",
        "points: [a]",
        "target.yaml:9:9: `points` is a mapping, not a list",
    ),
    "what a driver stumbles over": (
        "nodes: 4, ",
        "",
        "target.yaml:1:1: the driver cannot read this file: KeyError: 'nodes'",
    ),
    "waiting for an event that nobody emits": (
        "ends:",
        "ready: {event: step.complete}\nends:",
        "target.yaml:12:16: `step.complete` is not declared under `events`, so it would be waited for in vain (did you",
    ),
    "a member that is ready in no time": (
        "node: ",
        "ready: {event: step.completed, within: 20}, node: ",
        "target.yaml:13:72: `20` has no unit",
    ),
    "a grace without unit": ("ends:", "stop-grace: 2\nends:", "target.yaml:12:13: `2` has no unit"),
    "a complaint of the driver": ("members:", "announced:", "target.yaml:1:1: `$.description` has no members"),
}


@pytest.mark.parametrize(("right", "wrong", "expected"), TARGET_ROWS.values(), ids=TARGET_ROWS)
def test_a_mistake_in_the_target_file_is_told_at_its_place(
    mistakes: Mistakes, right: str, wrong: str, expected: str
) -> None:
    assert right in TARGET
    found = mistakes(f"{HEAD}method: []\n", target=TARGET.replace(right, wrong))
    assert found[0].startswith(expected), found
    assert len(found) == 1


def test_a_complaint_of_the_driver_is_told_at_the_value_it_speaks_of(mistakes: Mistakes) -> None:
    target = TARGET.replace("members:", "announced:").replace("name: sample", "name: sample\ndescription: of none")
    (only,) = mistakes(f"{HEAD}method: []\n", target=target)
    assert only == "target.yaml:2:14: `$.description` has no members"


def test_mistakes_of_the_experiment_come_before_those_of_the_target_and_of_the_call(mistakes: Mistakes) -> None:
    found = mistakes(f"{HEAD}method: []\nsede: 1\n", target=TARGET + "more: x\n", nodse="6")
    assert [line.split(":")[0] for line in found] == ["sample.yaml", "target.yaml", "--set nodse=6"]


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("nodse", "6", "--set nodse=6: the target has no setting `nodse` (did you mean `nodes`?)"),
        ("nodes", "six", "--set nodes=six: `nodes` is a whole number, not `six` (the default is `4`)"),
        ("nodes", "true", "--set nodes=true: `nodes` is a whole number, not `true` (the default is `4`)"),
        ("nodes", "[1", "--set nodes=[1: `nodes` is a whole number, not `[1` (the default is `4`)"),
        ("ratio", ".nan", "--set ratio=.nan: `ratio` is a number, not `nan` (the default is `0.5`)"),
        ("fast", "yes", "--set fast=yes: `fast` is true or false, not `yes` (the default is `false`)"),
        ("defect", "nonw", "--set defect=nonw: `defect` cannot be `nonw` (did you mean `none`?)"),
    ],
)
def test_a_wrong_setting_of_the_call_is_told(mistakes: Mistakes, name: str, value: str, expected: str) -> None:
    assert mistakes(f"{HEAD}method: []\n", **{name: value}) == [expected]
