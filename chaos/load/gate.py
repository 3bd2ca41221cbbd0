"""The catalogue of recovery paths: YAML to a `Catalogue`, every mistake at once with `file:line:column`."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import date
from os.path import normpath
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from chaos.errors import SpecError
from chaos.experiment import Budget
from chaos.gate.catalogue import Candidate, Catalogue, Entry, Policy, Recipe, Waiver
from chaos.load.budget import read_budget
from chaos.load.document import INVALID, EnoughProblems, Node, Place, Problems, compose, read, show
from chaos.load.reader import Reader
from chaos.paths import Spot
from chaos.registry import did_you_mean

KEYS = ("targets", "policy", "paths", "waivers")
_WORD = re.compile(r"[a-z0-9]+")


class Sketch(NamedTuple):
    """What an experiment file says of itself, read without its target; the file as it is named in commands."""

    file: str
    digest: str
    target: str  # its target file, absolute
    words: Mapping[str, int]
    defect: str = ""  # the deliberate bug that it switches on, in a target that has such a setting


def load_catalogue(path: str | Path) -> Catalogue:
    """Read and check a catalogue, with the names of its targets and the digests of its experiments.

    Files in it are relative to its folder; in what is returned they are named from the current one, where they are
    below it. Raises SpecError with all mistakes, in file order. Whether a path is still there is not asked here.
    """
    file, problems = Path(path), Problems()
    problems.visit(str(file))
    found = None
    with suppress(EnoughProblems):
        text = read(file, problems)
        root = compose(str(file), text, problems) if text is not None else None
        found = _Loader(file, problems).catalogue(root) if root is not None else None
    if len(problems) or found is None:
        raise SpecError(tuple(problems))
    return found


def sketch(file: Path, problems: Problems | None = None, asked: Place | None = None) -> Sketch | None:
    """The digest and the target of an experiment file; None where it is none, with the reason told."""
    problems = Problems() if problems is None else problems
    read_ = read(file, problems, asked)
    root = compose(str(file), read_, problems) if read_ is not None else None
    if root is None or not isinstance(root.value, dict):
        return None
    target = root.value.get("target")
    if target is None or not isinstance(target.value, str):
        return None
    said = {key: str(root.value[key].plain()) for key in ("title", "tags") if key in root.value}
    weighed = ((said.get("title", ""), 1), (said.get("tags", ""), 2), (file.stem, 3))
    words = {word: weight for text, weight in weighed for word in _WORD.findall(text.lower().replace("_", " "))}
    # Of the bytes, as `chaos run` takes it: what was read may lack a byte order mark.
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    settings = root.value.get("settings")
    given = settings.value.get("defect") if settings is not None and isinstance(settings.value, dict) else None
    defect = "" if given is None or given.value in ("none", None) else str(given.plain())
    return Sketch(str(file), digest, str(Path(normpath(file.parent / target.value)).resolve()), words, defect)


def candidates(catalogue: Catalogue) -> tuple[Candidate, ...]:
    """All experiments beside those that are listed, and in `experiments` near the targets; files that are none are
    left out."""
    names = {str(Path(file).resolve()): _name(Path(file)) for file in catalogue.targets}
    near = [Path(file).parent / up / "experiments" for file in catalogue.targets for up in (".", "..", "../..")]
    listed = [Path(recipe.file).parent for entry in catalogue.entries for recipe in entry.experiments]
    beside = [Path(file).parent for file in catalogue.targets]
    found: dict[Path, Candidate] = {}
    for folder in dict.fromkeys(Path(normpath(f)) for f in (*listed, *near, *beside)):
        for file in sorted((*folder.glob("*.yaml"), *folder.glob("*/*.yaml"))):
            known = sketch(file) if file not in found else None
            if known is not None and known.target in names:
                found[file] = Candidate(
                    target=names[known.target], name=file.stem, file=named(file), digest=known.digest,
                    words=known.words, defect=known.defect,
                )  # fmt: skip
    return tuple(found.values())


def named(file: Path) -> str:
    """A file as a command here would name it: from the current folder where it is below."""
    if not file.is_absolute():
        return str(file)
    here = Path.cwd()
    return str(file.relative_to(here)) if file.is_relative_to(here) else str(file)


def _name(target: Path) -> str:
    root = compose(str(target), target.read_text(), Problems())
    name = root.value.get("name") if root is not None and isinstance(root.value, dict) else None
    return str(name.plain()) if name is not None else ""


class _Loader:
    """One file; what is wrong in it goes to `problems`."""

    def __init__(self, file: Path, problems: Problems) -> None:
        self._file, self._problems, self._reader = file, problems, Reader(problems)
        self._sketches: dict[Path, Sketch | None] = {}
        self._targets: dict[str, Path] = {}  # name -> target file

    def catalogue(self, root: Node) -> Catalogue | None:
        entries = self._reader.mapping(root, "the catalogue", KEYS, ("targets",))
        if "targets" in entries:
            self._read_targets(entries["targets"])
        policy = self._policy(entries["policy"], "`policy`", Policy()) if "policy" in entries else Policy()
        paths = self._paths(entries["paths"], policy) if "paths" in entries else ()
        waivers = self._waivers(entries["waivers"]) if "waivers" in entries else ()
        if len(self._problems):
            return None
        targets = tuple(named(path) for path in self._targets.values())
        return Catalogue(file=str(self._file), targets=targets, policy=policy, entries=paths, waivers=waivers)

    def _beside(self, node: Node) -> Path | None:
        text = self._reader.read(node, str)
        return None if text is INVALID else Path(normpath(self._file.parent / text))

    def _read_targets(self, node: Node) -> None:
        for item in self._reader.sequence(node, "`targets`"):
            path = self._beside(item)
            if path is None:
                continue
            path = path / "target.yaml" if path.is_dir() else path
            if read(path, self._problems, item.place) is None:
                continue
            name = _name(path)
            if not name:
                self._problems.add(item.place, f"`{path}` is no target file: it has no `name`")
            elif name in self._targets:
                fix = f"the other is {self._targets[name]}"
                self._problems.add(item.place, f"two targets are called `{name}`", fix)
            else:
                self._targets[name] = path

    def _policy(self, node: Node, what: str, base: Policy, ignore: tuple[str, ...] = ()) -> Any:
        """`base` with what is given put over it."""
        given = dict(node.value) if isinstance(node.value, dict) else {}
        budget = self._budget(given.pop("budget")) if "budget" in given else None
        rest = Node(node.place, given if isinstance(node.value, dict) else node.value, node.keys)
        own = self._reader.struct(rest, Policy, what, ignore=ignore)
        if own is INVALID or budget is INVALID:
            return INVALID
        if "fresh" in given and own.fresh == 0:
            self._problems.add(given["fresh"].place, "nothing is that fresh, so nothing could be proved", "such as 14d")
        names = {f.encode_name: f.name for f in msgspec.structs.fields(Policy)}
        put = {names[key]: getattr(own, names[key]) for key in given if key in names}
        return msgspec.structs.replace(base, **put, **({"budget": budget} if budget is not None else {}))

    def _budget(self, node: Node) -> Any:
        """`none` takes away what the policy bounds: a service, say, has no RPO."""
        return Budget() if node.value == "none" else read_budget(node, self._reader)

    def _paths(self, node: Node, policy: Any) -> tuple[Entry, ...]:
        found = []
        base = policy if isinstance(policy, Policy) else Policy()
        if node.value is None:
            return ()
        for target, below in self._reader.mapping(node, "`paths`", tuple(self._targets)).items():
            if below.value is None:
                continue
            if not isinstance(below.value, dict):
                self._problems.add(below.place, f"`{target}` is a mapping of paths, not {show(below.value)}")
                continue
            for path, entry in below.value.items():
                found.append(self._entry(target, path, below.keys[path], entry, base))
        return tuple(entry for entry in found if entry is not None)

    def _entry(self, target: str, path: str, place: Place, node: Node, base: Policy) -> Entry | None:
        what, given = f"`{path}`", node.value if isinstance(node.value, dict) else {}
        if "undeclared" in given:
            self._problems.add(given["undeclared"].place, "`undeclared` is about no path", "write it under `policy`")
        policy = self._policy(node, what, base, ("experiments",))
        if "experiments" not in given:
            if isinstance(node.value, dict):
                self._problems.add(place, f"{what} lacks `experiments`", "list one that leads through it, or a waiver")
            return None
        items = self._reader.sequence(given["experiments"], "`experiments`")
        if given["experiments"].value == []:
            self._problems.add(given["experiments"].place, "no experiment, so nothing could prove it", "list one")
        passes = policy is INVALID or policy.verdict == "pass"
        recipes = [self._recipe(item, target, passes) for item in items]
        if policy is INVALID:
            return None
        known = tuple({r.file: r for r in recipes if r is not None}.values())
        return Entry(target=target, path=path, experiments=known, policy=policy, spot=Spot(str(self._file), place.line))

    def _recipe(self, node: Node, target: str, passes: bool) -> Recipe | None:
        path = self._beside(node)
        if path is None:
            return None
        if not path.is_file():
            here = [str(node.plain()).rpartition("/")[0] + f"/{p.name}" for p in path.parent.glob("*.yaml")]
            near = did_you_mean(str(node.plain()), (text.removeprefix("/") for text in here))
            self._problems.add(node.place, f"there is no {path}", near if near.startswith("did") else "")
            return None
        if path not in self._sketches:
            self._sketches[path] = sketch(path, self._problems, node.place)
            if self._sketches[path] is None:
                self._problems.add(node.place, f"`{path}` is no experiment that `chaos validate` would take")
        known = self._sketches[path]
        if known is None:
            return None
        if known.target != str(self._targets[target].resolve()):
            reason = f"`{path}` is an experiment of {named(Path(known.target))}, not of {target}"
            self._problems.add(node.place, reason, "a run of it proves nothing here")
            return None
        if known.defect and passes:
            reason = f"`{path}` switches on `defect: {known.defect}`, so that it proves nothing of {target} as it is"
            self._problems.add(node.place, reason, "with `verdict: fail` it shows that the defect is found")
            return None
        return Recipe(name=path.stem, file=named(path), digest=known.digest)

    def _waivers(self, node: Node) -> tuple[Waiver, ...]:
        found: dict[str, Waiver] = {}
        keys = ("path", "owner", "reason", "until")
        for item in self._reader.sequence(node, "`waivers`"):
            entries = self._reader.mapping(item, "a waiver", keys, keys)
            read_ = {key: self._reader.read(entries[key], str) for key in entries}
            if len(read_) < len(keys) or INVALID in read_.values():
                continue
            until = self._day(entries["until"], read_["until"])
            target, colon, path = read_["path"].partition(":")
            if not colon or not path or target not in self._targets:
                fix = did_you_mean(target, self._targets) if colon else "such as trainer:checkpoint.rollback"
                self._problems.add(entries["path"].place, f"{show(read_['path'])} is no TARGET:PATH", fix)
            elif read_["path"] in found:
                self._problems.add(entries["path"].place, f"{show(read_['path'])} is waived twice", "remove one")
            elif until is not None:
                spot = Spot(str(self._file), item.place.line)
                found[read_["path"]] = Waiver(**{**read_, "until": until}, spot=spot)
        return tuple(found.values())

    def _day(self, node: Node, text: str) -> date | None:
        try:
            return date.fromisoformat(text)
        except ValueError:
            self._problems.add(node.place, f"{show(text)} is no day", "such as 2026-12-31")
            return None
