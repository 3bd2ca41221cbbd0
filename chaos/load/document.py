"""YAML text to a tree in which every value knows where it stands; strict where YAML is lax.

Words are read by the core schema of YAML 1.2 (`yes`, `on`, `12:30` and dates are strings). Refused: duplicate keys,
keys that are no words, tags, merge keys, more than one document, bytes that are not UTF-8, control characters, tabs as
indentation, files, nesting and aliases beyond any honest experiment.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import yaml

from chaos.errors import Problem

MAX_BYTES = 1 << 20
MAX_DEPTH = 40
MAX_NODES = 100_000  # aliases counted as often as they are used
MAX_PROBLEMS = 200

Scalar = str | int | float | bool | None


class Place(NamedTuple):
    """Where something stands; line and column count from 1, 0 means the whole file."""

    path: str
    line: int = 0
    column: int = 0


class EnoughProblems(Exception):
    """More mistakes than anybody reads: the file is something else than it claims to be."""


class Problems:
    """Collects mistakes, so that all are told at once and in file order; raises EnoughProblems beyond a limit."""

    def __init__(self) -> None:
        self._found: list[Problem] = []
        self._order: dict[str, int] = {}

    def add(self, place: Place, reason: str, fix: str = "") -> None:
        self._order.setdefault(place.path, len(self._order))
        if len(self._found) >= MAX_PROBLEMS:
            self._found.append(Problem(place.path, 0, 0, f"more than {MAX_PROBLEMS} mistakes; the rest is not shown"))
            raise EnoughProblems
        self._found.append(Problem(*place, reason, fix))

    def visit(self, path: str) -> None:
        """Mistakes in `path` come after those of paths visited before."""
        self._order.setdefault(path, len(self._order))

    def __iter__(self) -> Iterator[Problem]:
        unique = dict.fromkeys(self._found)
        return iter(sorted(unique, key=lambda p: (self._order[p.path], p.line or math.inf, p.column)))

    def __len__(self) -> int:
        return len(self._found)


class Invalid:
    """The value of a node whose mistake has been told already: whoever meets it stays silent."""


INVALID = Invalid()


class Node(msgspec.Struct, frozen=True):
    """A value and its place. `keys` says where each key of a mapping stands; `size` and `height` measure the tree."""

    place: Place
    value: Scalar | Invalid | list[Node] | dict[str, Node]
    keys: Mapping[str, Place] = {}
    size: int = 1
    height: int = 1

    def plain(self) -> Any:
        """The value as bare lists, mappings and scalars."""
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        return None if isinstance(self.value, Invalid) else self.value

    def each(self, change: Callable[[Node], Node]) -> Node:
        """The same tree with every scalar replaced by `change` of it."""
        if isinstance(self.value, list):
            return msgspec.structs.replace(self, value=[node.each(change) for node in self.value])
        if isinstance(self.value, dict):
            return msgspec.structs.replace(self, value={key: node.each(change) for key, node in self.value.items()})
        return change(self)


def read(path: Path, problems: Problems, asked: Place | None = None) -> str | None:
    """The text of a file, or None with the reason told; `asked` is where the file was named."""
    place, name = asked or Place(str(path)), f"`{path}` " if asked else ""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except IsADirectoryError:
        problems.add(place, f"{name}is a directory", "name the file in it")
        return None
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the path
        reason = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
        problems.add(place, f"{name}cannot be read: {reason}")
        return None
    if len(data) > MAX_BYTES:
        problems.add(Place(str(path)), f"is larger than {MAX_BYTES >> 20} MiB", "an experiment is a few kilobytes")
        return None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # A byte order mark is no character of the text, so the count begins behind it as it does in an editor.
        before = data[: error.start].decode("utf-8-sig")
        column = error.start and len(before) - before.rfind("\n")
        problems.add(Place(str(path), before.count("\n") + 1, column or 1), "is not UTF-8", "save it as UTF-8")
        return None


_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ufeff\ufffe\uffff]|\r(?!\n)")


def compose(path: str, text: str, problems: Problems) -> Node | None:
    """The tree of `text`, or None where it is no YAML; what is merely wrong in it is told and marked `INVALID`."""
    controls = list(_CONTROL.finditer(text))
    for match in controls[:20]:
        line = text.count("\n", 0, match.start()) + 1
        column = match.start() - text.rfind("\n", 0, match.start())
        problems.add(Place(path, line, column), f"control character U+{ord(match[0]):04X}", "remove it")
    if controls:
        return None
    composer = _Composer(path, problems)
    try:
        # libyaml is several times faster than the pure parser; both make the same events.
        for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            composer.take(event)
    except yaml.MarkedYAMLError as error:
        _tell_syntax(path, text, error, problems)
        return None
    except _TooMuch:
        return None
    if composer.root is None:
        problems.add(Place(path, 1, 1), "the file is empty", "`chaos init` writes an example")
    return composer.root


def _tell_syntax(path: str, text: str, error: yaml.MarkedYAMLError, problems: Problems) -> None:
    lines = text.split("\n")
    tabs = [n for n, line in enumerate(lines, 1) if "\t" in line[: len(line) - len(line.lstrip())]]
    for n in tabs:
        column = lines[n - 1].index("\t") + 1
        problems.add(Place(path, n, column), "a tab as indentation", "indent with spaces")
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    if line in tabs:
        return
    reason = f"no YAML: {error.problem or error.context}"
    bare = line <= len(lines) and re.search(r"(?<![\"'])\$\{\w*\}", lines[line - 1])
    problems.add(Place(path, line, column), reason, 'inside { } and [ ] write "${…}" in quotes' if bare else "")


class _TooMuch(Exception):
    """A limit was passed; told already, nothing further is to be read."""


class _Open(msgspec.Struct):
    """A collection whose end has not come yet."""

    place: Place
    anchor: str | None
    items: list[Node]
    below: dict[str, Node] | None  # None: a sequence
    keys: dict[str, Place]
    key: str | None = None
    expects_key: bool = True
    size: int = 1
    height: int = 1


class _Composer:
    """Builds nodes out of parse events; no recursion, so depth cannot hurt."""

    def __init__(self, path: str, problems: Problems) -> None:
        self.root: Node | None = None
        self._path, self._problems = path, problems
        self._anchors: dict[str, Node] = {}
        self._open: list[_Open] = []

    def take(self, event: yaml.Event) -> None:
        place = self._place(event)
        if isinstance(event, yaml.DocumentStartEvent) and self.root is not None:
            self._problems.add(place, "a second document", "one experiment a file")
            raise _TooMuch
        if isinstance(event, yaml.NodeEvent):
            self._check_tag(event, place)
        if isinstance(event, yaml.AliasEvent):
            self._place_node(self._alias(event, place), None)
        elif isinstance(event, yaml.ScalarEvent):
            bare = event.style is None or event.style == ""
            self._place_node(Node(place, _resolve(event.value) if bare else event.value), event.anchor)
        elif isinstance(event, yaml.CollectionStartEvent):
            if len(self._open) >= MAX_DEPTH:
                self._problems.add(place, f"nested deeper than {MAX_DEPTH} levels")
                raise _TooMuch
            mapping = isinstance(event, yaml.MappingStartEvent)
            self._open.append(_Open(place, event.anchor, [], {} if mapping else None, {}))
        elif isinstance(event, yaml.CollectionEndEvent):
            done = self._open.pop()
            value: Any = done.items if done.below is None else done.below
            self._place_node(Node(done.place, value, done.keys, done.size, done.height), done.anchor)

    def _place(self, event: yaml.Event) -> Place:
        mark: Any = event.start_mark
        return Place(self._path, mark.line + 1, mark.column + 1)

    def _check_tag(self, event: Any, place: Place) -> None:
        tag = getattr(event, "tag", None)
        if tag is not None:
            self._problems.add(place, f"a tag (`{tag}`)", "write the bare value; put a string in quotes")

    def _alias(self, event: Any, place: Place) -> Node:
        node = self._anchors.get(event.anchor)
        if node is None:
            self._problems.add(place, f"`*{event.anchor}` refers to no anchor before it")
            return Node(place, INVALID)
        return node

    def _place_node(self, node: Node, anchor: str | None) -> None:
        if anchor is not None:
            self._anchors[anchor] = node
        parent = self._open[-1] if self._open else None
        if parent is None:
            self.root = node
            return
        parent.size += node.size
        parent.height = max(parent.height, node.height + 1)
        if parent.size > MAX_NODES or parent.height > MAX_DEPTH:
            self._problems.add(node.place, f"aliases expand to more than {MAX_NODES} values or {MAX_DEPTH} levels")
            raise _TooMuch
        if parent.below is None:
            parent.items.append(node)
        elif parent.expects_key:
            parent.expects_key = False
            parent.key = self._key(parent, node)
        else:
            parent.expects_key = True
            if parent.key is not None:
                parent.below[parent.key] = node

    def _key(self, parent: _Open, node: Node) -> str | None:
        """The key's word, or None where its pair is to be dropped."""
        key = node.value
        if not isinstance(key, str):
            self._problems.add(node.place, f"{show(key)} as a key", "a key is a word; put it in quotes")
            return None
        if key == "<<":
            self._problems.add(node.place, "a merge key (`<<`)", "write the values out")
            return None
        if key in parent.keys:
            first = parent.keys[key]
            self._problems.add(node.place, f"`{key}` is given twice", f"first in line {first.line}; remove one")
            return None
        parent.keys[key] = node.place
        return key


_INT = re.compile(r"[-+]?[0-9]+")
_OCTAL = re.compile(r"0o[0-7]+")
_HEX = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT = re.compile(
    r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)
_WORDS: Mapping[str, Scalar] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}


def _resolve(text: str) -> Scalar:
    """The value of an unquoted scalar by the core schema."""
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text) and len(text) < 400:  # the interpreter refuses to read numbers of thousands of digits
        return int(text)
    if _OCTAL.fullmatch(text) or (_HEX.fullmatch(text) and len(text) < 400):
        return int(text, 0)
    if _FLOAT.fullmatch(text):
        return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
    return text


def show(value: object) -> str:
    """A value as it would be written in YAML, shortened."""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "a mapping"
    text = "null" if value is None else str(value)
    return f"`{text[:57]}…`" if len(text) > 60 else f"`{text}`"
