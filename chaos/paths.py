"""Recovery paths as an inventory: which a target declares and where, and which code looks like one undeclared."""

from __future__ import annotations

from typing import Literal

import msgspec

# What a handler handles the failures of.
Concern = Literal["collective", "checkpoint", "store", "health", "other"]


class Spot(msgspec.Struct, frozen=True, order=True):
    """A place in a source file: `file` relative to the working directory where it lies below, else absolute; the line
    counts from 1."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Region(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Lines of a source file, `first` to `last`, which only run on a recovery path; `head` is that of the `def`."""

    file: str
    first: int
    last: int
    head: int = 0

    @property
    def spot(self) -> Spot:
        """The place to show."""
        return Spot(self.file, self.head or self.first)


class Listed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An entry of `recovery-paths` in a target file. `code` is where a program that was not changed has the branch:
    `src/train.py:resume`, a function, or `src/train.py:40-62`, lines; relative to the target file."""

    name: str
    spot: Spot
    code: str = ""


class Path(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A recovery path. `listed`: in the target file, under `recovery-paths` (its line). `declared`: where in the code;
    empty for a path that is only listed, which then is a promise that no code keeps."""

    name: str  # checkpoint.rollback
    listed: Spot | None = None
    declared: tuple[Spot, ...] = ()
    code: Region | None = None  # of a program that was not changed, as the target file says; `declared` has its place

    @property
    def where(self) -> Spot | None:
        """The place to show: in the code if it is there."""
        return self.declared[0] if self.declared else self.listed


class Handler(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Code that only runs after a failure, without a declared path around or in it."""

    spot: Spot
    concern: Concern
    catches: tuple[str, ...]  # exception types as written
    calls: str  # the call in its `try` that makes it one: `self._store.commit`
    does: str = ""  # what it does about the failure: "tries again", "calls `self.restore`"
    inside: str  # the function that holds it: `Vault.settle`


class Inventory(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All of one target, by name; found without running it."""

    target: str  # name
    file: str  # of the target file, as given
    sources: str  # digest over the target's files: `Build.sources`
    paths: tuple[Path, ...] = ()
    undeclared: tuple[Handler, ...] = ()
    # With their place: sources that could not be read, names that are only known when the program runs, `code` that is
    # not there, marks without a reason. What stands there is not known.
    problems: tuple[str, ...] = ()

    def find(self, name: str) -> Path | None:
        """The path of that name."""
        return next((path for path in self.paths if path.name == name), None)
