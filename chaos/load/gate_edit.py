"""Change the catalogue as a person would: lines are put in or taken out, and all else stays as it was written."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import yaml

from chaos.errors import SpecError
from chaos.load.document import Problems, compose
from chaos.load.gate import load_catalogue
from chaos.report.files import put

Change = Callable[[str], str]


def edit(file: Path, add: Sequence[str], remove: Sequence[str]) -> list[str]:
    """Add `TARGET:PATH=EXPERIMENT` entries, remove `TARGET:PATH` ones; what was done, a line each.

    An experiment is named from the current folder. The result is read again: where it does not say what was meant, or
    is no catalogue, nothing is written. All changes are written at once or none.
    """
    load_catalogue(file)  # a file that is wrong already is told so, with places
    text = file.read_text()
    done: list[str] = []
    for asked in add:
        target, path, experiment = _asked(asked)
        listed = os.path.relpath(experiment, file.parent)
        text, line = _added(text, target, path, listed)
        done.append(f"{file}: {line}")
    for asked in remove:
        target, path = _path(asked, "--remove", asked)
        text = _removed(text, target, path)
        done.append(f"{file}: {target}:{path} removed")
    _put_checked(file, text)
    return done


def _asked(text: str) -> tuple[str, str, str]:
    parts = text.split("=")
    cuts = [("=".join(parts[:at]), "=".join(parts[at:])) for at in range(1, len(parts))] or [(text, "")]
    # A name may have the sign in it as well as a file: it ends where a file that is there begins.
    name, experiment = next((cut for cut in cuts if Path(cut[1]).is_file()), cuts[0])
    target, path = _path(name, "--add", text)
    if not experiment:
        raise SpecError(f"--add {text}: such as trainer:checkpoint.rollback=experiments/shard_corrupted.yaml")
    if not Path(experiment).is_file():
        raise SpecError(f"--add {text}: there is no {experiment}")
    return target, path, experiment


def _path(name: str, option: str, text: str) -> tuple[str, str]:
    target, colon, path = name.partition(":")
    if not colon or not target or not path:
        raise SpecError(f"{option} {text}: a path is written TARGET:PATH, such as trainer:checkpoint.rollback")
    return target, path


def _put_checked(file: Path, text: str) -> None:
    """Write it where it is a catalogue; a draft beside the file is what is checked, since files in it are relative."""
    draft = file.with_name(f".{file.name}.{os.getpid()}.draft.yaml")
    try:
        draft.write_text(text)
        load_catalogue(draft)
    except SpecError as error:
        raise SpecError(str(error).replace(str(draft), f"{file}, as it would be")) from None
    except OSError as error:
        raise SpecError(f"{file}: {error.strerror}") from error
    finally:
        draft.unlink(missing_ok=True)
    put(file.resolve(), text.encode())


def _added(text: str, target: str, path: str, experiment: str) -> tuple[str, str]:
    plain = _plain(text)
    targets = plain.setdefault("paths", None) or {}
    entry = (targets.get(target) or {}).get(path)
    if entry is None:
        changed = _with_entry(text, target, path, experiment)
        plain["paths"] = {**targets, target: {**(targets.get(target) or {}), path: {"experiments": [experiment]}}}
        line = f"{target}:{path} added, proved by {experiment}"
    elif experiment in entry.get("experiments", ()):
        raise SpecError(f"--add {target}:{path}={experiment}: it is listed already")
    else:
        changed = _with_experiment(text, target, path, experiment)
        entry["experiments"].append(experiment)
        line = f"{target}:{path} is proved by {experiment} too"
    return _checked(changed, plain, f"{target}:{path}"), line


def _removed(text: str, target: str, path: str) -> str:
    plain = _plain(text)
    below = (plain.get("paths") or {}).get(target) or {}
    if path not in below:
        raise SpecError(f"--remove {target}:{path}: the catalogue has no such path")
    del below[path]
    around, gone = ["paths", target], path
    if not below:  # the target's key goes with its last path
        around, gone = ["paths"], target
        del plain["paths"][target]
        plain["paths"] = plain["paths"] or None
    block = _find(_root(text), *around)[1]
    if block.flow_style:
        raise SpecError(f"`{around[-1]}` is written in braces: take {gone} out by hand")
    key, value = _find(block, gone)
    first, last = key.start_mark.line, _last_line(value)
    lines = text.splitlines(keepends=True)
    lines[first : last + 1] = [line for line in lines[first : last + 1] if line.lstrip().startswith("#")]
    return _checked("".join(lines), plain, f"{target}:{path}")


def _checked(text: str, meant: dict[str, Any], name: str) -> str:
    if _plain(text) != meant:
        raise SpecError(f"{name}: the file is written in a way that cannot be changed line by line; do it by hand")
    return text


def _with_entry(text: str, target: str, path: str, experiment: str) -> str:
    entry = f"{_word(path)}: {{experiments: [{_word(experiment)}]}}\n"
    lines = (text if text.endswith("\n") else text + "\n").splitlines(keepends=True)
    paths = _child(_root(text), "paths")
    if paths is None:
        return "".join([*lines, f"paths:\n  {_word(target)}:\n    {entry}"])
    block = _child(paths[1], target)
    if block is not None and _is_block(block[1]):
        lines.insert(_last_line(block[1]) + 1, " " * block[1].value[0][0].start_mark.column + entry)
    elif block is not None:
        _put_below(lines, block, " " * (block[0].start_mark.column + 2) + entry)
    elif _is_block(paths[1]):
        indent = " " * paths[1].value[0][0].start_mark.column
        lines.insert(_last_line(paths[1]) + 1, f"{indent}{_word(target)}:\n{indent}  {entry}")
    else:
        _put_below(lines, paths, f"  {_word(target)}:\n    {entry}")
    return "".join(lines)


def _put_below(lines: list[str], pair: tuple[Any, Any], new: str) -> None:
    """Below a key behind which nothing stands, or `{}`: on its line or on one of its own."""
    key, value = pair
    at, written = value.start_mark.line, value.end_mark.index > value.start_mark.index
    if written and at > key.start_mark.line:
        lines[at] = new
        return
    at = key.start_mark.line
    if written:
        lines[at] = lines[at][: value.start_mark.column].rstrip() + lines[at][value.end_mark.column :]
    lines.insert(at + 1, new)


def _with_experiment(text: str, target: str, path: str, experiment: str) -> str:
    _, node = _find(_root(text), "paths", target, path, "experiments")
    if node.flow_style:
        end = node.end_mark.index - 1  # before the bracket
        return f"{text[:end].rstrip()}, {_word(experiment)}{text[end:]}"
    lines = (text if text.endswith("\n") else text + "\n").splitlines(keepends=True)
    dash = " " * node.start_mark.column
    lines.insert(_last_line(node) + 1, f"{dash}- {_word(experiment)}\n")
    return "".join(lines)


def _plain(text: str) -> dict[str, Any]:
    """What the text says, as the loader reads it."""
    root = compose("", text, Problems())
    plain = root.plain() if root is not None else None
    return plain if isinstance(plain, dict) else {}


def _root(text: str) -> Any:
    return yaml.compose(text, Loader=yaml.SafeLoader)


def _child(node: Any, key: str) -> tuple[Any, Any] | None:
    pairs = node.value if isinstance(node, yaml.MappingNode) else []
    return next(((k, v) for k, v in pairs if k.value == key), None)


def _find(node: Any, *keys: str) -> tuple[Any, Any]:
    key: Any = None
    for word in keys:
        found = _child(node, word)
        assert found is not None, word
        key, node = found
    return key, node


def _is_block(node: Any) -> bool:
    return isinstance(node, yaml.MappingNode) and not node.flow_style and bool(node.value)


def _last_line(node: Any) -> int:
    """The line on which what is written of a value ends: a block's own end is where the next thing begins."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _last_line(last[1] if isinstance(last, tuple) else last)
    if isinstance(node, yaml.ScalarNode) and node.style in ("|", ">"):
        return int(node.end_mark.line) - 1
    return int(node.end_mark.line)


def _word(text: str) -> str:
    """As YAML reads it back: in quotes where it must be."""
    dumped = yaml.safe_dump(text, default_flow_style=True, width=10_000, allow_unicode=True).strip()
    return dumped.removesuffix("\n...").strip()
