"""Files that are no experiment: as text, in their keys, in their variables."""

from __future__ import annotations

import pytest

from .broken import HEAD, control
from .conftest import Mistakes

ROWS: dict[str, tuple[str, str]] = {
    # --- the file as such
    "empty": ("", "1:1: the file is empty (`chaos init` writes an example)"),
    "only a comment": ("# nothing\n", "1:1: the file is empty (`chaos init` writes an example)"),
    "null": ("~\n", "1:1: the file is empty (keys: "),
    "not YAML": ("title: [a\nb: c\n", "2:2: no YAML: "),
    "a list at the top": ("- a\n- b\n", "1:1: an experiment is a mapping, not a list (keys: title,"),
    "a word at the top": ("hello\n", "1:1: an experiment is a mapping, not `hello`"),
    "two documents": (control("---\na: b"), "3:1: a second document (one experiment a file)"),
    "a tab": (f"{HEAD}method:\n\t- fault: x\n", "3:1: a tab as indentation (indent with spaces)"),
    "a control character": ("title: a\x07b\n", "1:9: control character U+0007 (remove it)"),
    "a tag": ("title: !!python/object:os.system x\n" + HEAD + "method: []\n", "1:8: a tag ("),
    "a merge key": (control("limits: {<<: {wall: 1s}}"), "3:10: a merge key (`<<`)"),
    "a number as a key": (control("7: a"), "3:1: `7` as a key (a key is a word; put it in"),
    "a boolean as a key": (control("true: a"), "3:1: `true` as a key"),
    "a list as a key": (control("? [a]\n: b"), "3:3: a list as a key"),
    "an alias without anchor": (f"{HEAD}method: *nobody\n", "2:9: `*nobody` refers to no anchor"),
    "an alias of itself": (f"{HEAD}method: &m [*m]\n", "2:13: `*m` refers to no anchor"),
    "a variable in braces without quotes": (
        control("budget: {rpo: {steps: ${steps}}}"),
        "3:24: no YAML: ",
    ),
    # --- keys
    "a near miss of a key": (
        control("steady_state_hypothesis: []"),
        "3:1: unknown key `steady_state_hypothesis` in the experiment (did you mean `steady-state-hypothesis`?)",
    ),
    "a key of another tool": (control("rollbacks: []"), "3:1: unknown key `rollbacks` in the"),
    "a duplicate key": (
        control("seed: 1\nseed: 2"),
        "4:1: `seed` is given twice (first in line 3; remove one)",
    ),
    "no target": ("method: []\n", "1:1: the experiment lacks `target`"),
    "no method": (HEAD, "1:1: the experiment lacks `method`"),
    "a boolean where a word is meant": (
        f"title: true\n{HEAD}method: []\n",
        "1:8: a word is meant, not `true` (put it in quotes)",
    ),
    "an empty title": (f"title: ''\n{HEAD}method: []\n", "1:8: an empty string"),
    "a tag that is a number": (f"tags: [a, 3]\n{HEAD}method: []\n", "1:11: a word is meant, not `3`"),
    "a negative seed": (f"seed: -1\n{HEAD}method: []\n", "1:7: `-1` is not at least 0"),
    "a fractional seed": (f"seed: 1.5\n{HEAD}method: []\n", "1:7: a whole number is meant, not `1.5`"),
    # --- variables
    "an undefined variable": (
        f"title: '${{stpes}} steps'\n{HEAD}method: []\n",
        "1:8: undefined variable `${stpes}` (did you mean `steps`?)",
    ),
    "an open variable": (f"title: 'a ${{steps'\n{HEAD}method: []\n", "1:8: `${` without its `}` in"),
    "a variable of the wrong type": (
        control("limits:\n  members-hurt: ${defect}"),
        "4:17: a whole number is meant, not `none`",
    ),
    # --- settings
    "an unknown setting of the target": (
        control("settings: {nodse: 6}"),
        "3:12: unknown key `nodse` in `settings` (did you mean `nodes`?)",
    ),
    "a setting of the wrong type": (
        control("settings: {nodes: four}"),
        "3:19: `nodes` is a whole number, not `four` (the default is `4`)",
    ),
    "a setting that is none of the choices": (
        control("settings: {defect: no-fencin}"),
        "3:20: `defect` cannot be `no-fencin` (did you mean `no-fencing`?)",
    ),
}


@pytest.mark.parametrize(("text", "expected"), ROWS.values(), ids=ROWS)
def test_a_mistake_is_told_once_at_its_place(mistakes: Mistakes, text: str, expected: str) -> None:
    (only,) = mistakes(text)
    assert only.startswith(f"sample.yaml:{expected}"), only
