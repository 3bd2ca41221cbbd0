"""The verb `paths`: a target's recovery paths, found without running it."""

from __future__ import annotations

import argparse
from pathlib import Path

import msgspec

from chaos.build import digest, files
from chaos.errors import Exit
from chaos.inventory.taking import take
from chaos.load.listing import load_listing
from chaos.paths import Inventory


def inventory_of(target_file: Path | str) -> Inventory:
    """The inventory of a target, by its file or the folder of its `target.yaml`; nothing of it is run or imported.

    SpecError where the file is wrong or one of its sources is not there. Sources that cannot be read as Python are
    problems of the inventory.
    """
    listing = load_listing(target_file, _shown)
    found = files(listing.file, listing.sources)
    return take(listing.name, listing.file, found, listing.paths, digest=digest(listing.file, found), shown=_shown)


def main(call: argparse.Namespace) -> int:
    """Print an inventory."""
    inventory = inventory_of(call.target)
    if call.json:
        print(msgspec.json.format(msgspec.json.encode(inventory), indent=2).decode())
        return Exit.PASS
    for path in inventory.paths:
        print(f"{path.name:28} {path.where}")
    for problem in inventory.problems:
        print(problem)
    return Exit.PASS


def _shown(path: Path) -> str:
    """A file as it is shown: from here, where it is below; else with its whole path."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
