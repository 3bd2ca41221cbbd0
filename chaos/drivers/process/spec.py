"""The process driver's part of a target file: nodes, members, readiness; settings substituted, for-each expanded."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from chaos.api import JSON, Slot
from chaos.capabilities import Device
from chaos.drivers.process.links import Link, Toxiproxy, check
from chaos.errors import SpecError
from chaos.units import parse_duration

_VARIABLE = re.compile(r"\$\{([^{}]*)\}")


class Ready(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The event that says so, from that member or (whole target) from anyone; how long it may take."""

    event: str
    within: str = "60s"

    def __post_init__(self) -> None:
        parse_duration(self.within)

    @property
    def seconds(self) -> float:
        return parse_duration(self.within)


class Ends(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The target has ended when a member of `role` exits with one of `codes`."""

    role: str
    codes: tuple[int, ...] = (0,)


class Program(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """A process that the driver starts; those of one `group` start together."""

    name: str
    role: str
    node: str | None = None
    rank: int | None = None
    command: tuple[str, ...]
    env: Mapping[str, str] = {}
    ready: Ready | None = None
    preload: tuple[str, ...] = ()  # modules that are imported once for all members that name any
    group: int = 0

    def __post_init__(self) -> None:
        if self.preload and (self.command[:2] != ("python", "-m") or len(self.command) < 3):
            raise ValueError(f"{self.name}: `preload` goes with a command `python -m MODULE …` only")


class Announced(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A process that others start, and that says who it is."""

    name: str
    role: str
    node: str | None = None
    rank: int | None = None


class _Domain(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    of: str = "*"
    size: int = 1


class Spec(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """What the driver reads of a target file. Other keys of the file are not its business."""

    settings: JSON = {}
    workdir: str = "."
    env: Mapping[str, Any] = {}
    nodes: tuple[JSON, ...] = ()
    domains: Mapping[str, _Domain] = {}
    devices: tuple[JSON, ...] = ()
    members: tuple[JSON, ...] = ()
    announced: tuple[JSON, ...] = ()
    ready: Ready | None = None
    ends: Ends | None = None
    stop_grace: str = "2s"
    links: Mapping[str, Link] = {}
    toxiproxy: Toxiproxy | None = None

    def __post_init__(self) -> None:
        parse_duration(self.stop_grace)

    @property
    def grace(self) -> float:
        """Seconds between SIGTERM and SIGKILL."""
        return parse_duration(self.stop_grace)

    @property
    def empty(self) -> bool:
        """Whether there is nobody to start, to wait for or to connect."""
        return not (self.members or self.nodes or self.announced or self.ready)

    def node_names(self) -> tuple[str, ...]:
        """All nodes, in order of declaration."""
        return tuple(str(node["name"]) for _, node in self._expand("nodes", self.nodes, {}))

    def programs(self, values: Mapping[str, Any]) -> tuple[Program, ...]:
        """The members to start. `values` are the variables that only a run knows: `data`, `address.NODE`."""
        return tuple(
            _convert({**one, "command": _texts(one.get("command", ())), "group": group}, Program, "members")
            for group, one in self._expand("members", self.members, values)
        )

    def announcements(self) -> tuple[Announced, ...]:
        """The members that others start."""
        return tuple(_convert(one, Announced, "announced") for _, one in self._expand("announced", self.announced, {}))

    def bound(self) -> tuple[Device, ...]:
        """The devices, and which ranks use them."""
        known, found = set(self.node_names()), []
        for _, one in self._expand("devices", self.devices, {}):
            found.append(device := _convert(one, Device, "devices"))
            if device.node not in known:
                raise SpecError(f"devices: {device.name} is on node {device.node}, which is not among the nodes")
        return tuple(found)

    def environment(self, values: Mapping[str, Any]) -> dict[str, str]:
        """`env:` of the whole target."""
        variables = {**self._variables(None), **values}
        return {key: _text(_fill(value, variables, f"env.{key}")) for key, value in self.env.items()}

    def slots(self) -> tuple[Slot, ...]:
        """Every declared member, started or announced, with its failure domains."""
        domains = self._domains()
        known, devices = set(self.node_names()), self.bound()
        slots: dict[str, Slot] = {}
        for section, entries in (("members", self.members), ("announced", self.announced)):
            places = tuple(
                {k: v for k, v in e.items() if k not in ("command", "env", "ready", "preload")} for e in entries
            )
            for _, one in self._expand(section, places, {}):
                who = _convert(one, Announced, section)
                if who.node is not None and known and who.node not in known:
                    raise SpecError(f"{section}: {who.name} is on node {who.node}, which is not among the nodes")
                if who.name in slots:
                    raise SpecError(f"{section}: two members have the name {who.name}")
                inside = {**domains.get(who.node or "", {}), **_device_of(who, devices)}
                slots[who.name] = Slot(name=who.name, role=who.role, node=who.node, rank=who.rank, domains=inside)
        found = tuple(slots.values())
        for name, link in self.links.items():
            if link.for_each is None or self.settings.get(link.for_each):
                check(name, link, found)
        return found

    def _domains(self) -> dict[str, dict[str, str]]:
        """Consecutive nodes that match the glob share a domain: r0, r1, …"""
        found: dict[str, dict[str, str]] = {}
        for kind, domain in self.domains.items():
            for index, node in enumerate(n for n in self.node_names() if fnmatchcase(n, domain.of)):
                found.setdefault(node, {})[kind] = f"{kind[0]}{index // max(domain.size, 1)}"
        return found

    def _variables(self, setting: str | None) -> dict[str, Any]:
        count = self.settings.get(setting or "nodes")
        return {**self.settings, **({"last": count - 1} if isinstance(count, int) else {})}

    def _expand(self, section: str, entries: tuple[JSON, ...], values: Mapping[str, Any]) -> list[tuple[int, JSON]]:
        """Entries with `for-each` multiplied and every `${…}` replaced, with the number of the entry each came from."""
        found = []
        for group, entry in enumerate(entries):
            rest = {k: v for k, v in entry.items() if k != "for-each"}
            setting = entry.get("for-each")
            variables = {**self._variables(setting), **values}
            if setting is None:
                found.append((group, _fill(rest, variables, f"{section}[{group}]")))
                continue
            count = self.settings.get(setting)
            if not isinstance(count, int) or isinstance(count, bool) or count < 0:
                raise SpecError(f"{section}[{group}]: for-each names no setting with a whole number: {setting!r}")
            found += [(group, _fill(rest, {**variables, "i": i}, f"{section}[{group}]")) for i in range(count)]
        return found


def _device_of(who: Announced, devices: Sequence[Device]) -> dict[str, str]:
    """The failure domain that is the device of a rank; ranks are meant as they are at the start."""
    own = [d.name for d in devices if who.rank is not None and d.node == who.node and d.uses(who.rank)]
    if len(own) > 1:
        raise SpecError(f"devices: rank {who.rank} ({who.name}) is bound to {' and '.join(own)}; one is enough")
    return {"device": own[0]} if own else {}


def decode(raw: JSON) -> Spec:
    """The driver's part of a target file; raises SpecError."""
    spec: Spec = _convert(raw, Spec, "target")
    return spec


def _convert(value: Any, kind: type[Any], place: str) -> Any:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise SpecError(f"{place}: {error}") from error


def _fill(value: Any, variables: Mapping[str, Any], place: str) -> Any:
    """Replace `${…}` everywhere inside; a string that is exactly one variable takes its type."""
    if isinstance(value, dict):
        return {k: _fill(v, variables, f"{place}.{k}") for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_fill(v, variables, place) for v in value]
    if not isinstance(value, str):
        return value
    for name in _VARIABLE.findall(value):
        if name not in variables:
            raise SpecError(f"{place}: ${{{name}}} is not defined (known: {', '.join(sorted(variables))})")
    whole = _VARIABLE.fullmatch(value)
    if whole:
        return variables[whole[1]]
    return _VARIABLE.sub(lambda match: _text(variables[match[1]]), value)


def _texts(words: Any) -> Any:
    return [_text(word) for word in words] if isinstance(words, list | tuple) else words


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


__all__ = ["Announced", "Ends", "Program", "Ready", "Spec", "decode"]
