"""The verb `paths`: a target's recovery paths, found without running it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from chaos.build import digest, files
from chaos.clean import clean
from chaos.errors import Exit, SpecError
from chaos.inventory.exercised import exercised, read_lines
from chaos.inventory.findings import Finding, findings
from chaos.inventory.sarif import encode
from chaos.inventory.taking import take
from chaos.load.listing import load_listing
from chaos.paths import Inventory
from chaos.report.files import put
from chaos.units import counted


def inventory_of(target_file: Path | str) -> Inventory:
    """The inventory of a target, by its file or the folder of its `target.yaml`; nothing of it is run or imported.

    SpecError where the file is wrong or one of its sources is not there. Sources that cannot be read as Python are
    problems of the inventory.
    """
    listing = load_listing(target_file, _shown)
    found = files(listing.file, listing.sources)
    return take(listing.name, listing.file, found, listing.paths, digest=digest(listing.file, found), shown=_shown)


def main(call: argparse.Namespace) -> int:
    """Print an inventory, and say by the exit code whether there is something to mend."""
    inventory = inventory_of(call.target)
    taken = None
    if call.coverage:
        taken = exercised(inventory, read_lines(Path(file) for file in call.coverage), Path.cwd())
    if call.sarif:
        _write(Path(call.sarif), encode([inventory]))
    found = list(findings(inventory))
    if call.json:
        told: dict[str, Any] = msgspec.to_builtins(inventory)
        if taken is not None:
            told["exercised"] = taken
        print(msgspec.json.format(msgspec.json.encode(told), indent=2).decode())
    else:
        print("\n".join(_lines(inventory, found, taken)))
    return Exit.FAIL if found else Exit.PASS


def _lines(inventory: Inventory, found: list[Finding], taken: Mapping[str, bool] | None) -> Iterator[str]:
    paths = counted(len(inventory.paths), "recovery path")
    yield f"{clean(inventory.target)}: {paths}, {len(found) or 'nothing'} to mend"
    width = max((len(path.name) for path in inventory.paths), default=0)
    marks = {} if taken is None else {name: "run" if ran else "not run" for name, ran in taken.items()}
    for path in inventory.paths:
        mark = f"{marks.get(path.name, '-'):8}" if taken is not None else ""
        more = f" and {len(path.declared) - 1} more" if len(path.declared) > 1 else ""
        yield f"  {clean(path.name):{width}}  {mark}{clean(path.where)}{more}"
    if taken is not None:
        yield _summary(inventory, taken)
    for finding in found:
        place = f"{finding.spot}: " if finding.spot is not None else ""
        yield clean(f"{place}{finding.message}")


def _summary(inventory: Inventory, taken: Mapping[str, bool]) -> str:
    """What coverage data says in all; a path without `code:` is told by the program, in the record of a run."""
    ran, silent = sum(taken.values()), len(inventory.paths) - len(taken)
    text = f"{ran} of {counted(len(taken), 'path')} with `code:` were run"
    return text + (f"; {silent} (-) tell of themselves, which coverage does not see" if silent else "")


def _write(path: Path, content: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        put(path, content)
    except OSError as error:
        raise SpecError(f"{path}: {error.strerror}") from error


def _shown(path: Path) -> str:
    """A file as it is shown: from here, where it is below; else with its whole path."""
    here = Path.cwd()
    shown = str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
    return shown.encode(errors="surrogateescape").decode(errors="backslashreplace")  # a name may be any bytes
