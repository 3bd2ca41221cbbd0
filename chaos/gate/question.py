"""All that the gate is told, in one frozen value; nothing is looked up while it decides."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from chaos.evidence import Build, Evidence
from chaos.gate.catalogue import Candidate, Catalogue
from chaos.paths import Inventory


class Calling(msgspec.Struct, frozen=True, kw_only=True):
    """How commands are written: options that the caller gave and that a command must carry on."""

    here: str = ""  # the current folder: what lies below it is named from there
    gate: tuple[str, ...] = ()  # --catalogue FILE, where it is not the default
    run: tuple[str, ...] = ()  # --out DIR, where it is not the default


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """`edited` names runs whose journal was changed after it was judged; `before` is the inventory of the last
    release, None where nobody gave one."""

    catalogue: Catalogue
    inventories: tuple[Inventory, ...]
    builds: Mapping[str, Build]  # target -> what it is today
    runs: tuple[Evidence, ...]  # oldest first
    now: float
    edited: frozenset[str] = frozenset()
    before: tuple[Inventory, ...] | None = None
    candidates: tuple[Candidate, ...] = ()
    calling: Calling = Calling()
