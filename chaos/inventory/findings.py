"""What there is to mend in an inventory, each with its place: for people, editors and code scanning."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from chaos.paths import Handler, Inventory, Spot

_PLACED = re.compile(r"(.+?):(\d+)(?::\d+)?: (.*)", re.DOTALL)


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of finding. `level` is SARIF's: error, warning or note."""

    id: str
    title: str
    help: str
    level: str


UNDECLARED = Rule(
    id="undeclared-recovery-path",
    title="Code that handles a failure is no declared recovery path",
    help=(
        "This code only runs after a failure and goes on another way: nobody knows whether that way works until a run "
        "has taken it. Enter a path around it (`with chaos.inside.recovery_path(\"noun.verb\"):`) and list its name "
        "under `recovery-paths` of the target file; then `chaos gate` asks for an experiment that takes it. If it is "
        "none, say why on the line of the `except` or the one before: `# not a recovery path: REASON`."
    ),
    level="warning",
)  # fmt: skip
UNLISTED = Rule(
    id="unlisted-recovery-path",
    title="A declared recovery path is not in the target file",
    help="The code enters a recovery path that `recovery-paths` of the target file does not list: add its name there.",
    level="warning",
)
UNKEPT = Rule(
    id="unkept-recovery-path",
    title="A listed recovery path is not in the code",
    help=(
        "The target file lists a recovery path that no source enters, so no run can ever exercise it. Enter it with "
        "`chaos.inside.recovery_path`, say which `code:` it is, or remove it from `recovery-paths`."
    ),
    level="error",
)
UNKNOWN = Rule(
    id="unreadable-recovery-path",
    title="What recovery paths are here cannot be told",
    help=(
        "A source cannot be read, or the name of a recovery path is only known when the program runs: the inventory "
        "may lack paths. Give `recovery_path` a constant, an entry of a table of constants, or a parameter whose "
        "callers do."
    ),
    level="error",
)


class Finding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing to mend."""

    rule: Rule
    message: str
    spot: Spot | None = None
    inside: str = ""  # the function that holds it


def findings(inventory: Inventory) -> Iterator[Finding]:
    """All of one inventory: what is not known, what does not fit together, what is undeclared."""
    for problem in inventory.problems:
        placed = _PLACED.fullmatch(problem)
        spot = Spot(placed[1], int(placed[2])) if placed else None
        yield Finding(rule=UNKNOWN, message=placed[3] if placed else problem, spot=spot)
    for path in inventory.paths:
        if not path.declared:
            message = f"`{path.name}` is listed, and no code enters it: enter it, name its `code:`, or take it out"
            yield Finding(rule=UNKEPT, message=message, spot=path.listed)
        elif path.listed is None:
            message = f"`{path.name}` is not listed: add `- {path.name}` under `recovery-paths` of {inventory.file}"
            yield Finding(rule=UNLISTED, message=message, spot=path.where)
    for handler in inventory.undeclared:
        yield Finding(rule=UNDECLARED, message=described(handler), spot=handler.spot, inside=handler.inside)


def described(handler: Handler) -> str:
    """A handler in one line: what fails, and what is done about it."""
    caught = f" ({', '.join(handler.catches)})" if handler.catches else ""
    failing = f"`{handler.calls}` fails" if handler.calls else "that fails"
    return f"where {failing}{caught}, `{handler.inside or 'the file'}` {handler.does}: an undeclared recovery path?"
