"""The class behind a kind that a file names."""

from __future__ import annotations

from typing import Any

from chaos.errors import PluginError
from chaos.load.document import INVALID, Node, show
from chaos.load.reader import Reader
from chaos.registry import Registry, did_you_mean


def find(node: Node, word: str, registry: Registry, reader: Reader) -> Any:
    """The class that `node` names under `word` (`fault`, `probe`), or `INVALID` with the reason told."""
    if not isinstance(node.value, dict):
        reader.mapping(node, f"a {word}", (word,))
        return INVALID
    if word not in node.value:
        near = next((key for key in node.value if did_you_mean(key, [word]).startswith("did")), None)
        if near is not None:
            reader.problems.add(node.keys[near], f"unknown key `{near}`", did_you_mean(near, [word]))
        else:
            reader.problems.add(
                node.place, f"no `{word}` is named", f"add `{word}: KIND`; `chaos list {word}s` shows them"
            )
        return INVALID
    return find_kind(node.value[word], f"{word}s", registry, reader)


def find_kind(node: Node, group: str, registry: Registry, reader: Reader) -> Any:
    """The class of the kind that this node is."""
    kind = reader.read(node, str)
    if kind is INVALID:
        return INVALID
    known = registry.kinds(group)
    if kind not in known:
        fix = did_you_mean(kind, known) or f"no {group} are installed"
        reader.problems.add(node.place, f"unknown {group[:-1]} {show(kind)}", fix)
        return INVALID
    try:
        return registry.find(group, kind)
    except PluginError as error:
        reader.problems.add(node.place, str(error))
        return INVALID
