"""Where a target keeps its checkpoints: folders of generations and what lies in them, as its target file declares."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal, NamedTuple

import msgspec
from msgspec import Meta

from chaos.errors import NotLanded, Unsupported

NUMBER = "{number}"

# Which generation: by its number, or counted back from the newest that is committed.
Which = Annotated[int, Meta(ge=0)] | Annotated[str, Meta(pattern=r"^newest(-\d+)?$", description="newest, newest-1, …")]
Part = Literal["shard", "manifest", "marker"]


class Generation(NamedTuple):
    """A folder that looks like a generation."""

    number: int
    digits: str  # as they stand in its name
    folder: Path


class Layout(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The section `checkpoints:` of a target file. Paths are relative: of `generation` and `latest` to the target's
    data, of the rest to the folder of a generation."""

    generation: str  # a folder, with {number} in its name: store/gen-{number}
    shards: str = "*"  # a glob
    manifest: str | None = None
    marker: str | None = None  # the file that makes a generation a committed one
    latest: str | None = None  # the file that names the newest

    def __post_init__(self) -> None:
        for field in ("generation", "shards", "manifest", "marker", "latest"):
            path = getattr(self, field)
            if path is not None and outside(path):
                raise ValueError(f"`{field}` is a path below a folder, not {path!r}")
        if self.generation.count(NUMBER) != 1:
            raise ValueError(f"`generation` has {NUMBER} in it, once: {self.generation!r} has not")

    def named(self, root: Path, digits: str) -> Path:
        """The folder of the generation with that number."""
        return root / self.generation.replace(NUMBER, digits)

    def all(self, root: Path) -> list[Generation]:
        """Every folder with the name of a generation, in order of numbers."""
        before, after = self.generation.split(NUMBER)
        pattern = re.compile(f"{re.escape(before)}(\\d+){re.escape(after)}")
        found = []
        for folder in root.glob(self.generation.replace(NUMBER, "*")):
            match = pattern.fullmatch(str(folder.relative_to(root)))
            if match and folder.is_dir():
                found.append(Generation(int(match[1]), match[1], folder))
        return sorted(found)

    def find(self, root: Path, which: int | str) -> Generation:
        """The generation that is meant. Counted back from the newest, only committed ones count; NotLanded if there is
        none."""
        known = self.all(root)
        if isinstance(which, int):
            found = [g for g in known if g.number == which]
        else:
            back = int(which.partition("-")[2] or 0)
            found = [g for g in known if self.marker is None or (g.folder / self.marker).is_file()]
            found = found[len(found) - back - 1 :][:1] if back < len(found) else []
        if not found:
            there = ", ".join(str(g.number) for g in known) or "none"
            raise NotLanded(f"no generation `{which}` below {root} (there: {there})")
        return found[0]

    def files(self, generation: Generation, part: Part, glob: str = "*") -> list[Path]:
        """The files of a part; of the shards those whose names match. NotLanded if there are none, Unsupported where
        the target declares no such part."""
        if part == "shard":
            files = sorted(f for f in generation.folder.glob(self.shards) if f.is_file() and f.match(glob))
        else:
            files = [f for f in (generation.folder / self.part(part),) if f.is_file()]
        if not files:
            raise NotLanded(f"no {part} {glob if part == 'shard' else ''} in {generation.folder}")
        return files

    def part(self, name: Literal["manifest", "marker", "latest"]) -> str:
        """The declared path; Unsupported where there is none."""
        path: str | None = getattr(self, name)
        if path is None:
            raise Unsupported(f"the target declares no `{name}` under `checkpoints` in its target file")
        return path


def outside(path: str) -> bool:
    """Whether a path is empty or may lead out of the folder that it is meant to lie in."""
    parts = PurePosixPath(path)
    return not parts.parts or parts.is_absolute() or ".." in parts.parts
