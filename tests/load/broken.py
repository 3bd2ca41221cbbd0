"""Short experiments with room for one mistake. The line and column of each are said, since the tests count on them."""

from __future__ import annotations

HEAD = "target: target.yaml\n"
STEADY = "steady-state-hypothesis: [{probe: training.throughput, at-least: 1}]\n"
KILL = "fault: process.kill, members: {ranks: 1}"
FREEZE = "fault: process.freeze, members: {ranks: 1}"
AT = "when: {at: 1s}"


def control(line: str) -> str:
    """No fault; `line` is line 3."""
    return f"{HEAD}method: []\n{line}\n"


def step(*lines: str) -> str:
    """One step; its keys begin at line 3, column 5."""
    return f"{HEAD}method:\n  - " + "\n    ".join(lines) + "\n"


def when(trigger: str) -> str:
    """A kill; `trigger` begins at line 5, column 11."""
    return step("fault: process.kill", "members: {ranks: 1}", f"when: {trigger}")


def whom(selector: str) -> str:
    """A kill; `selector` begins at line 4, column 14."""
    return step("fault: process.kill", f"members: {selector}", AT)


def freeze(*lines: str) -> str:
    """A freeze; `lines` begin at line 6, column 5."""
    return step("fault: process.freeze", "members: {ranks: 1}", AT, *lines)


def steady(*lines: str) -> str:
    """No fault and one hypothesis, whose probe is line 4; `lines` begin at line 5, column 5."""
    return control("\n    ".join(("steady-state-hypothesis:\n  - probe: training.throughput", *lines)))
