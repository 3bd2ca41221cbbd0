"""The list "Files that are wrong", through the command line: each refused at its place, all at once, no traceback.

What is said of each mistake is tested in `tests/load`.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from .harness import Chaos, folders, step, write

pytestmark = pytest.mark.slow

GOOD = """target: target.yaml
method:
  - fault: process.freeze
    members: {ranks: 1}
    when: {at: 1s}
    hold: 8s
"""
KILL = "fault: process.kill, members: {ranks: 1}"

# The file, and line:column of its mistakes ("" where the file as a whole is one).
WRONG: dict[str, tuple[str | bytes, list[str]]] = {
    "empty": ("", ["1:1"]),
    "not-yaml": ("title: [a\nb: c\n", ["2:2"]),
    "a-list": ("- a\n- b\n", ["1:1"]),
    "method-a-mapping": ("target: target.yaml\nmethod: {a: b}\n", ["2:9"]),
    "method-a-string": ("target: target.yaml\nmethod: kill\n", ["2:9"]),
    "method-null": ("target: target.yaml\nmethod:\n", ["2:8"]),
    "a-step-without-fault": (GOOD.replace("fault: process.freeze", "name: x"), ["3:5"]),
    "no-such-fault": (GOOD.replace("process.freeze", "network.partion"), ["3:12"]),
    "unknown-argument": (GOOD.replace("hold", "holt"), ["6:5"]),
    "wrong-type": (GOOD.replace("8s", "fast"), ["6:11"]),
    "wrong-unit": (GOOD.replace("8s", "5 parsecs"), ["6:11"]),
    "negative": (GOOD.replace("8s", "-5s"), ["6:11"]),
    "nan": (GOOD.replace("8s", ".nan"), ["6:11"]),
    "duplicate-key": (GOOD + "    hold: 9s\n", ["7:5"]),
    "undefined-variable": (GOOD.replace("8s", "${nobody}"), ["6:11"]),
    "undeclared-event": (GOOD.replace("at: 1s", "event: step.complete"), ["5:19"]),
    "two-triggers": (GOOD.replace("at: 1s", "at: 1s, event: step.completed"), ["5:20"]),
    "a-cycle": (
        f"target: target.yaml\nmethod:\n  - {{name: a, {KILL}, when: {{after: b}}}}\n"
        f"  - {{name: b, {KILL}, when: {{after: a}}}}\n",
        ["3:71"],
    ),
    "target-missing": (GOOD.replace("target.yaml", "nowhere.yaml"), ["1:9"]),
    "target-a-directory": (GOOD.replace("target.yaml", "."), ["1:9"]),
    "selects-nothing": (GOOD.replace("ranks: 1", "ranks: 9"), ["4:22"]),
    "budget-without-unit": (GOOD + "budget: {rto: {total: 30}}\n", ["7:23"]),
    "invariant-without-evidence": (GOOD + "invariants: [fenced-writer]\n", ["7:14"]),
    "yes-is-no-word": ("title: true\n" + GOOD, ["1:8"]),
    "tabs": (GOOD.replace("    hold", "\thold"), ["6:1"]),
    "large": (b"# " + b"x" * (10 << 20), [""]),
    "alias-bomb": (
        "a0: &a0 [x, x, x, x, x, x, x, x, x]\n"
        + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 9)),
        ["5:5"],
    ),
    "not-utf-8": (b"title: a\ndescription: caf\xe9\n", ["2:17"]),
    "several": (GOOD.replace("8s", "fast").replace("ranks: 1", "ranks: 9") + "sede: 1\n", ["4:22", "6:11", "7:1"]),
}


def test_every_wrong_file_is_refused_with_all_its_mistakes_at_their_places(chaos: Chaos) -> None:
    good = write(chaos.place / "good.yaml", [step("process.freeze", members={"ranks": 1})])
    files = [chaos.place / f"{name}.yaml" for name in WRONG]
    for path, (content, _) in zip(files, WRONG.values(), strict=True):
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    answer = chaos.ask("validate", good, *files, chaos.place / "missing.yaml", chaos.place)
    assert answer.returncode == 2
    assert answer.stdout == f"{good}: ok (1 step, 0 invariants)\n"
    assert "Traceback" not in answer.stderr
    told: dict[str, list[str]] = {}
    for line in answer.stderr.splitlines():
        file, place = re.fullmatch(r"(?:chaos: )?(.+?):(\d+:\d+)?:? .+", line).groups()  # type: ignore[union-attr]
        told.setdefault(Path(file).stem, []).append(place or "")
    assert told == {name: places for name, (_, places) in WRONG.items()} | {"missing": [""], chaos.place.name: [""]}


@pytest.mark.parametrize("name", ["several", "large", "alias-bomb"])
def test_a_wrong_file_is_not_run(chaos: Chaos, name: str) -> None:
    path = write(chaos.place / "good.yaml", []).with_name("wrong.yaml")
    content = WRONG[name][0]
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    answer = chaos.ask("run", path.with_name("good.yaml"), path, "--out", chaos.out)
    assert answer.returncode == 2
    assert "Traceback" not in answer.stderr
    assert not folders(chaos.out)  # the good one neither


def test_a_target_file_that_is_wrong_or_not_to_be_read_is_told_at_its_place(chaos: Chaos) -> None:
    path = write(chaos.place / "tiny.yaml", [])
    target = path.with_name("target.yaml")
    text = target.read_text()
    target.write_text(text.replace("driver: process", "driver: proces"))
    line = 1 + text.splitlines().index("driver: process")
    answer = chaos.ask("validate", path)
    assert (answer.returncode, answer.stderr.split(" ")[0]) == (2, f"{target}:{line}:9:")
    target.unlink()
    target.symlink_to(target)  # nobody can read it, not even root
    answer = chaos.ask("validate", path)
    keys = json.loads(path.read_text())
    assert next(iter(keys)) == "target"
    assert (answer.returncode, answer.stderr.split(" ")[0]) == (2, f"{path}:2:12:")
