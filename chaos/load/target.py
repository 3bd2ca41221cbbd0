"""A target file: settings with what the experiment and the command line put over them, and what it declares."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from os.path import normpath
from pathlib import Path
from typing import Any

import msgspec

from chaos.api import Duration, Slot
from chaos.errors import ChaosError, SpecError
from chaos.experiment import TargetSpec
from chaos.layout import Layout
from chaos.load.document import INVALID, Node, Place, Problems, compose, read, show
from chaos.load.listing import read_paths
from chaos.load.plugins import find_kind
from chaos.load.reader import Reader, is_number, substitute
from chaos.registry import Registry, did_you_mean

KEYS = (
    "name", "description", "driver", "settings", "choices", "events", "points", "recovery-paths", "ends", "ready",
    "links", "toxiproxy", "workdir", "env", "nodes", "domains", "devices", "members", "announced", "stop-grace",
    "checkpoints", "sources",
)  # fmt: skip
# Names in `${…}` that the driver knows, not the loader.
DRIVERS_OWN = ("i", "last", "data", "address")


def load_target(
    asked: Node, base: Path, given: Node | None, overrides: Mapping[str, str], registry: Registry, problems: Problems
) -> TargetSpec | None:
    """The target that an experiment in folder `base` names at `asked`; None where it cannot be known."""
    reader = Reader(problems)
    name = reader.read(asked, str)
    if name is INVALID:
        return None
    path = Path(normpath(Path(base, name)))
    text = read(path, problems, asked.place)
    root = compose(str(path), text, problems) if text is not None else None
    if root is None:
        return None
    before = len(problems)
    driver = _driver(root, registry, reader)
    own = () if driver is INVALID else driver.keys
    entries = reader.mapping(root, "the target file", (*KEYS, *own), ("name", "driver"))
    declared = {key: _declared(entries[key], key, reader) for key in ("events", "points") if key in entries}
    paths = read_paths(entries["recovery-paths"], reader) if "recovery-paths" in entries else ()
    sources = reader.read(entries["sources"], tuple[str, ...]) if "sources" in entries else (".",)
    names = {key: reader.read(entries[key], str) for key in ("name", "driver") if key in entries}
    known = len(problems) == before
    # A setting that is wrong leaves its default: what the file declares can still be checked.
    settings = _settings(entries, given, overrides, reader)
    before = len(problems)
    filled = substitute(root, settings, problems, leave=DRIVERS_OWN)
    _check_times(filled, declared.get("events"), reader)
    if isinstance(filled.value, dict) and "checkpoints" in filled.value:
        reader.struct(filled.value["checkpoints"], Layout, "`checkpoints`")
    raw = {**filled.plain(), "settings": settings} if known else {}
    slots = _slots(driver, raw, root, problems) if known and len(problems) == before else ()
    if not known or len(problems) > before:
        return None
    return TargetSpec(
        name=names["name"],
        path=str(path.resolve()),
        driver=names["driver"],
        settings=settings,
        slots=slots,
        events=declared.get("events", {}),
        points=declared.get("points", {}),
        recovery_paths=tuple(path.name for path in paths),
        ends="ends" in entries,
        raw=raw,
        sources=sources,
    )


def _driver(root: Node, registry: Registry, reader: Reader) -> Any:
    named = root.value.get("driver") if isinstance(root.value, dict) else None
    return find_kind(named, "drivers", registry, reader) if named is not None else INVALID


def _declared(node: Node, what: str, reader: Reader) -> dict[str, tuple[str, ...]]:
    """Kinds with their fields; nothing behind a kind means that it has none."""
    if not isinstance(node.value, dict):
        reader.mapping(node, f"`{what}`", ("kind: [field, …]",))
        return {}
    read = {k: () if n.value is None else reader.read(n, tuple[str, ...]) for k, n in node.value.items()}
    return {kind: fields for kind, fields in read.items() if fields is not INVALID}


def _check_times(root: Node, events: Collection[str] | None, reader: Reader) -> None:
    """What the start and the end wait for: an event that nobody emits would be waited for in vain."""
    entries = root.value if isinstance(root.value, dict) else {}
    members = entries["members"].value if "members" in entries else []
    parts = [entries, *(m.value for m in (members if isinstance(members, list) else ()) if isinstance(m.value, dict))]
    for ready in (part["ready"] for part in parts if "ready" in part):
        fields = reader.mapping(ready, "`ready`", ("event", "within"), ("event",))
        if "within" in fields:
            reader.read(fields["within"], Duration)
        kind: Any = reader.read(fields["event"], str) if "event" in fields else INVALID
        if events is not None and kind is not INVALID and kind not in events:
            reason = f"`{kind}` is not declared under `events`, so it would be waited for in vain"
            reader.problems.add(fields["event"].place, reason, did_you_mean(kind, events))
    if "stop-grace" in entries:
        reader.read(entries["stop-grace"], Duration)


def _settings(
    entries: Mapping[str, Node], given: Node | None, overrides: Mapping[str, str], reader: Reader
) -> dict[str, Any]:
    """Defaults, then the experiment's settings, then those of the command line; every mistake told."""
    problems = reader.problems
    defaults: dict[str, Any] = _plain_mapping(entries.get("settings"), reader)
    choices = _choices(entries.get("choices"), defaults, reader)
    settings = dict(defaults)
    own = given.value if given is not None and isinstance(given.value, dict) else {}
    if given is not None:
        reader.mapping(given, "`settings`", tuple(defaults))
    for key, node in own.items():
        if key in defaults and node.value is not INVALID and _fits(defaults, choices, key, node, problems):
            settings[key] = node.plain()
    for key, text in overrides.items():
        place = Place(f"--set {key}={text}")
        if key not in defaults:
            problems.add(place, f"the target has no setting `{key}`", did_you_mean(key, defaults))
            continue
        node = Node(place, text) if isinstance(defaults[key], str) else compose_value(text, place)
        if _fits(defaults, choices, key, node, problems):
            settings[key] = node.plain()
    return settings


def _plain_mapping(node: Node | None, reader: Reader) -> dict[str, Any]:
    if node is None:
        return {}
    if not isinstance(node.value, dict):
        reader.mapping(node, "`settings`", ())
        return {}
    return dict(node.plain())


def _choices(node: Node | None, defaults: Mapping[str, Any], reader: Reader) -> dict[str, list[Any]]:
    if node is None:
        return {}
    entries = reader.mapping(node, "`choices`", tuple(defaults))
    choices = {key: [item.plain() for item in reader.sequence(below, f"`{key}`")] for key, below in entries.items()}
    for key, allowed in choices.items():
        if allowed and defaults[key] not in allowed:
            reader.problems.add(entries[key].place, f"the default {show(defaults[key])} is not among them", "add it")
    return choices


def compose_value(text: str, place: Place) -> Node:
    """The value of `--set name=TEXT`: a scalar or a flow collection; a string where it is no YAML."""
    problems = Problems()
    root = compose(place.path, text, problems)
    return Node(place, text) if root is None or len(problems) else Node(place, root.value, root.keys)


def _fits(
    defaults: Mapping[str, Any], choices: Mapping[str, list[Any]], key: str, node: Node, problems: Problems
) -> bool:
    """Whether a value may stand in for the default: one of the choices, else of the same type."""
    default, value = defaults[key], node.plain()
    if key in choices and value not in choices[key]:
        fix = did_you_mean(str(value), map(str, choices[key]))
        problems.add(node.place, f"`{key}` cannot be {show(value)}", fix)
        return False
    if isinstance(default, float):
        fits, meant = is_number(value), "a number"
    elif isinstance(default, bool) or default is None:
        fits, meant = default is None or isinstance(value, bool), "true or false"
    else:
        words: Mapping[type, str] = {int: "a whole number", str: "a word", list: "a list", dict: "a mapping"}
        fits = isinstance(value, type(default)) and not isinstance(value, bool)
        meant = words.get(type(default), "another type")
    if not fits:
        problems.add(node.place, f"`{key}` is {meant}, not {show(value)}", f"the default is {show(default)}")
    return fits


def _slots(driver: Any, raw: dict[str, Any], root: Node, problems: Problems) -> tuple[Slot, ...]:
    """What the driver makes of the file; its complaints are told at the value they speak of."""
    try:
        return tuple(driver().slots(raw))
    except SpecError as error:
        for problem in error.problems:
            problems.add(_locate(root, problem.reason), problem.reason, problem.fix)
    except (ChaosError, msgspec.ValidationError) as error:
        problems.add(_locate(root, str(error)), str(error))
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        # The file is all that a driver looks at here, so what it stumbles over is a mistake of the file.
        problems.add(root.place, f"the driver cannot read this file: {type(error).__name__}: {error}")
    return ()


def _locate(root: Node, message: str) -> Place:
    """Where `members[0].node: …` or `$.members[0].node` in a message points to, as far as it can be followed."""
    leading = re.match(r"([\w-]+(?:\.[\w-]+|\[\d+\])*): ", message)
    within = re.search(r"\$((?:\.[\w-]+|\[\d+\])+)", message)
    node = _follow(root, f".{leading[1]}") if leading else root
    return (_follow(node, within[1]) if within else node).place


def _follow(node: Node, steps: str) -> Node:
    for key, index in re.findall(r"\.([\w-]+)|\[(\d+)\]", steps):
        if isinstance(node.value, dict) and key in node.value:
            node = node.value[key]
        elif isinstance(node.value, list) and index and int(index) < len(node.value):
            node = node.value[int(index)]
        else:
            break
    return node
