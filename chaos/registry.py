"""From a kind in YAML to the class behind it: built-in packages are scanned, others publish entry points.

Listing kinds reads file names and metadata only; a plugin's module is imported when its class is asked for.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, NamedTuple, cast

from chaos.api import Driver, Fault, Invariant, Probe
from chaos.errors import PluginError

GROUPS: Mapping[str, type] = {"faults": Fault, "probes": Probe, "invariants": Invariant, "drivers": Driver}


class Source(NamedTuple):
    """Where the class of a kind is to be found. `attribute` is None where the module's only plugin is meant."""

    module: str
    attribute: str | None = None

    def __str__(self) -> str:
        return f"{self.module}:{self.attribute}" if self.attribute else self.module


class Registry:
    """All plugins that this installation knows.

    `packages` maps a group to the package that is scanned for it; modules whose name begins with `_` are private to
    the package. A driver may be a package of its own, so only the first level is looked at there.
    """

    def __init__(self, packages: Mapping[str, str] | None = None, *, entry_points: bool = True) -> None:
        self._packages = {group: f"chaos.{group}" for group in GROUPS} if packages is None else packages
        self._entry_points = entry_points

    def kinds(self, group: str) -> tuple[str, ...]:
        """Every kind of the group, sorted; imports no plugin."""
        return tuple(sorted(self._sources[group]))

    def fault(self, kind: str) -> type[Fault[Any]]:
        """The class of a fault; PluginError when it is unknown or does not load. Likewise the three below."""
        return cast(type[Fault[Any]], self.find("faults", kind))

    def probe(self, kind: str) -> type[Probe]:
        return cast(type[Probe], self.find("probes", kind))

    def invariant(self, kind: str) -> type[Invariant]:
        return cast(type[Invariant], self.find("invariants", kind))

    def driver(self, kind: str) -> type[Driver]:
        return cast(type[Driver], self.find("drivers", kind))

    def find(self, group: str, kind: str) -> type:
        """The class of `kind`. Its type is known by its group alone: hence the casts above, the only ones."""
        source = self._sources[group].get(kind)
        if source is None:
            raise PluginError(f"unknown {group[:-1]} `{kind}`{_hint(kind, self.kinds(group), group)}")
        try:
            module = import_module(source.module)
        except ImportError as error:
            raise PluginError(f"{group[:-1]} `{kind}` does not load from {source.module}: {error}") from error
        if source.attribute is None:
            return _only_plugin(module, GROUPS[group])
        found: object = module
        for name in source.attribute.split("."):
            found = getattr(found, name, None)
        if not (isinstance(found, type) and issubclass(found, GROUPS[group])):
            raise PluginError(f"{group[:-1]} `{kind}`: {source} is no {GROUPS[group].__name__}")
        return found

    @cached_property
    def _sources(self) -> Mapping[str, Mapping[str, Source]]:
        found: dict[str, dict[str, Source]] = {group: {} for group in GROUPS}
        for group, kind, source in (*self._built_in(), *(_published() if self._entry_points else ())):
            if kind in found[group]:
                raise PluginError(f"two {group} of kind `{kind}`: {found[group][kind]} and {source}")
            found[group][kind] = source
        return found

    def _built_in(self) -> Iterator[tuple[str, str, Source]]:
        for group, package in self._packages.items():
            spec = find_spec(package)
            for name in _modules(list(spec.submodule_search_locations or ()) if spec else [], "", group != "drivers"):
                yield group, name.replace("_", "-"), Source(f"{package}.{name}")


def _published() -> Iterator[tuple[str, str, Source]]:
    if not _anyone_publishes():
        return
    from importlib.metadata import entry_points

    published = entry_points()
    for group in GROUPS:
        for point in published.select(group=f"chaos.{group}"):
            yield group, point.name, Source(point.module, point.attr)


def _anyone_publishes() -> bool:
    """Whether an installed distribution names one of our groups.

    Asked first, since mostly none does: to import `importlib.metadata` takes longer than to read an experiment.
    """
    for folder in map(Path, sys.path):
        for file in folder.glob("*-info/entry_points.txt"):
            if any(f"[chaos.{group}]" in file.read_text(encoding="utf-8") for group in GROUPS):
                return True
    return False


def _modules(paths: list[str], prefix: str, deep: bool) -> Iterator[str]:
    """Dotted names of the modules below `paths`, folders entered without importing them."""
    for module in iter_modules(paths):
        if module.name.startswith("_"):
            continue
        if module.ispkg and deep:
            yield from _modules([f"{path}/{module.name}" for path in paths], f"{prefix}{module.name}.", deep)
        else:
            yield prefix + module.name


def _only_plugin(module: Any, base: type) -> type:
    own = [
        value
        for name, value in vars(module).items()
        if isinstance(value, type)
        and issubclass(value, base)
        and not name.startswith("_")
        and f"{value.__module__}.".startswith(f"{module.__name__}.")
    ]
    if len(own) != 1:
        raise PluginError(f"{module.__name__} must define exactly one {base.__name__}, not {len(own)}")
    return own[0]


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`did you mean …?` for a near miss, else what is known, else nothing: a fix to show beside the mistake."""
    from difflib import get_close_matches

    names = sorted(set(known))
    # A kind is often misremembered by its folder alone: `process.stop`, `partition`.
    near = get_close_matches(word, names, n=1, cutoff=0.7) or [n for n in names if n.rpartition(".")[2] == word][:1]
    if near:
        return f"did you mean `{near[0]}`?"
    listed = ", ".join(names[:20]) + (", …" if len(names) > 20 else "")
    return f"known: {listed}" if names else ""


def _hint(word: str, known: Iterable[str], group: str) -> str:
    hint = did_you_mean(word, known)
    return f" ({hint})" if hint else f" (no {group} are installed)"
