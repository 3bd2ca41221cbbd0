"""What a target file says of the target's recovery paths, read without an experiment and without its driver."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from chaos.errors import SpecError
from chaos.load.document import INVALID, EnoughProblems, Node, Place, Problems, compose, read
from chaos.load.reader import Reader
from chaos.paths import Listed, Spot

# A function or a line range of a file.
_CODE = re.compile(r"[^:]+:(?:[A-Za-z_][\w.]*|[1-9][0-9]*(?:-[1-9][0-9]*)?)")


class Listing(NamedTuple):
    """A target file as far as an inventory needs it; `${…}` stands in it as it is written."""

    name: str
    file: Path  # absolute
    sources: tuple[str, ...]
    paths: tuple[Listed, ...]


def load_listing(path: str | Path, shown: Callable[[Path], str] = str) -> Listing:
    """Read a target file, or `target.yaml` in a folder; `shown` says how files are called in places.

    Raises SpecError with all mistakes in what is read here; other keys are another's business.
    """
    file, problems = Path(path), Problems()
    if file.is_dir():
        file = file / "target.yaml"
    found = None
    with suppress(EnoughProblems):
        text = read(file, problems)
        root = compose(shown(file.resolve()), text, problems) if text is not None else None
        found = _listing(file, root, Reader(problems)) if root is not None else None
    if len(problems) or found is None:
        raise SpecError(tuple(problems))
    return found


def _listing(file: Path, root: Node, reader: Reader) -> Listing | None:
    if not isinstance(root.value, dict):
        reader.mapping(root, "the target file", ("name", "driver", "recovery-paths", "sources"))
        return None
    if "name" not in root.value:
        reader.problems.add(root.place, "the target file lacks `name`")
        return None
    name = reader.read(root.value["name"], str)
    sources = reader.read(root.value["sources"], tuple[str, ...]) if "sources" in root.value else (".",)
    paths = read_paths(root.value["recovery-paths"], reader) if "recovery-paths" in root.value else ()
    if INVALID in (name, sources):
        return None
    return Listing(name, file.resolve(), sources, paths)


def read_paths(node: Node, reader: Reader) -> tuple[Listed, ...]:
    """The entries of `recovery-paths`: a name, or `{name, code}`; what is wrong is told and left out."""
    found: dict[str, Listed] = {}
    for item in reader.sequence(node, "`recovery-paths`"):
        entries = {"name": item}
        if isinstance(item.value, dict):
            entries = reader.mapping(item, "a recovery path", ("name", "code"), ("name",))
        name: Any = reader.read(entries["name"], str) if "name" in entries else INVALID
        code = reader.read(entries["code"], str) if "code" in entries else ""
        if name is INVALID or code is INVALID:
            continue
        if code and not _CODE.fullmatch(code):
            fix = "such as `src/train.py:resume` or `src/train.py:40-62`"
            reader.problems.add(entries["code"].place, f"`{code}` is no function or lines of a file", fix)
        if name in found:
            fix = f"first in line {found[name].spot.line}; remove one"
            reader.problems.add(item.place, f"`{name}` is given twice", fix)
            continue
        found[name] = Listed(name=name, spot=_spot(item.place), code=code)
    return tuple(found.values())


def _spot(place: Place) -> Spot:
    return Spot(place.path, place.line)
