"""The budget of an experiment, or of a policy: what a recovery may cost."""

from __future__ import annotations

from typing import Any

from chaos.experiment import Budget
from chaos.load.document import INVALID, Node, show
from chaos.load.reader import Reader


def read_budget(node: Node, reader: Reader) -> Any:
    """The budget at a node, or `INVALID`; one that bounds nothing is a mistake."""
    examples = {"rpo": "{steps: 20}", "rto": "{total: 30s}"}
    parts = node.value if isinstance(node.value, dict) else {}
    for key, part in parts.items():
        if key in examples and not isinstance(part.value, dict | type(INVALID)):
            reader.problems.add(
                part.place, f"`{key}` does not say of what {show(part.value)} is", f"such as {examples[key]}"
            )
            return INVALID
    for part in (node, *parts.values()):
        if part.value == {}:
            reader.problems.add(part.place, "a budget without a bound would not be applied", "give one or remove it")
    return reader.struct(node, Budget, "`budget`")
