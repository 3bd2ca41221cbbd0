"""From a kind in YAML to the class behind it: built-in packages are scanned, others publish entry points.

Listing kinds reads file names and metadata only; a plugin's module is imported when its class is asked for.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.util import find_spec
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
        self._known: dict[str, Mapping[str, Source]] = {}

    def kinds(self, group: str) -> tuple[str, ...]:
        """Every kind of the group, sorted; imports no plugin."""
        return tuple(sorted(self._sources(group)))

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
        source = self._sources(group).get(kind)
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

    def _sources(self, group: str) -> Mapping[str, Source]:
        if group not in self._known:
            found: dict[str, Source] = {}
            for kind, source in (*self._built_in(group), *(_published(group) if self._entry_points else ())):
                if kind in found:
                    raise PluginError(f"two {group} of kind `{kind}`: {found[kind]} and {source}")
                found[kind] = source
            self._known[group] = found
        return self._known[group]

    def _built_in(self, group: str) -> Iterator[tuple[str, Source]]:
        package = self._packages.get(group)
        spec = find_spec(package) if package else None
        for name in _modules(list(spec.submodule_search_locations or ()) if spec else [], "", group != "drivers"):
            yield name.replace("_", "-"), Source(f"{package}.{name}")


@cache
def installed() -> Registry:
    """The registry of this installation; it looks for plugins once a process."""
    return Registry()


def _published(group: str) -> Iterator[tuple[str, Source]]:
    if not _anyone_publishes(group):
        return
    from importlib.metadata import entry_points

    for point in entry_points(group=f"chaos.{group}"):
        yield point.name, Source(point.module, point.attr)


def _anyone_publishes(group: str) -> bool:
    """Whether an installed distribution names that group.

    Asked first, since mostly none does: to import `importlib.metadata` takes longer than to read an experiment.
    """
    for folder in sys.path:
        with suppress(OSError):
            for name in os.listdir(folder or "."):
                if name.endswith("-info"):
                    with suppress(OSError), open(f"{folder or '.'}/{name}/entry_points.txt", "rb") as file:
                        if f"[chaos.{group}]".encode() in file.read():
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
