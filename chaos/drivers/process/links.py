"""`links:` of a target file: which connections there are between members, so that faults of streams can hit them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from chaos.api import Slot
from chaos.errors import SpecError

Names = str | tuple[str, ...]
Ports = int | tuple[int, ...]


class Link(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    rename={"source": "from", "for_each": "for-each"},
):
    """Connections from members of these roles (or from these nodes) to a port of those; `proxy` names the proxy of a
    Toxiproxy server that runs by itself."""

    source: Names
    to: Names
    port: Ports
    proxy: str | None = None
    for_each: str | None = None  # a setting; where it is 0 there is no such link

    @property
    def ports(self) -> tuple[int, ...]:
        return (self.port,) if isinstance(self.port, int) else self.port

    def sources(self, slots: Sequence[Slot]) -> tuple[str, ...]:
        """The nodes that connect."""
        return _nodes(self.source, slots)

    def targets(self, slots: Sequence[Slot]) -> tuple[str, ...]:
        """The nodes that are connected to."""
        return _nodes(self.to, slots)


class Toxiproxy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A Toxiproxy server that runs by itself."""

    address: str


def check(name: str, link: Link, slots: Sequence[Slot]) -> None:
    """Whether it means somebody; raises SpecError."""
    known = _words(slots)
    for key, words in (("from", link.source), ("to", link.to)):
        for word in _listed(words):
            if word not in known:
                reason = f"links.{name}.{key}: `{word}` is neither a role nor a node"
                raise SpecError(f"{reason} (known: {', '.join(sorted(known))})")
    if bad := [port for port in link.ports if not 0 < port < 1 << 16]:
        raise SpecError(f"links.{name}.port: {bad[0]} is no port")


def _nodes(words: Names, slots: Sequence[Slot]) -> tuple[str, ...]:
    wanted = set(_listed(words))
    return tuple(dict.fromkeys(s.node for s in slots if s.node and wanted & {s.role, s.node}))


def _words(slots: Iterable[Slot]) -> set[str]:
    return {word for slot in slots for word in (slot.role, slot.node) if word}


def _listed(words: Names) -> tuple[str, ...]:
    return (words,) if isinstance(words, str) else words
