"""The toxics, one a file; the type in the API is the file's name."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from inspect import getmembers, isclass
from pkgutil import iter_modules

from chaos.toxiproxy.toxic import Stage


@cache
def kinds() -> dict[str, type[Stage]]:
    """The stage class of every type."""
    found: dict[str, type[Stage]] = {}
    for module in iter_modules(__path__):
        name = f"{__name__}.{module.name}"
        (found[module.name],) = (
            cls
            for _, cls in getmembers(import_module(name), isclass)
            if issubclass(cls, Stage) and cls.__module__ == name
        )
    return found
