"""The plan of a game day: YAML to a `Plan`, strict, with every mistake of it and of its experiments at once."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from os.path import normpath
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from chaos.errors import SpecError
from chaos.gameday.agenda import MIXES
from chaos.gameday.terms import RUNGS, Approvals, Blackout, Channel, Draw, Hours, Piece, Plan, Positive, Rate, Timetable
from chaos.gameday.timetable import trigger_of, zone_of
from chaos.load import load_experiment
from chaos.load.document import INVALID, EnoughProblems, Node, Place, Problems, compose, read, show
from chaos.load.promises import promises, rung_of
from chaos.load.reader import Reader
from chaos.registry import did_you_mean

KEYS = (
    "title", "schedule", "blackouts", "business-hours", "ladder", "experiments", "draw", "approvals", "announce",
    "interrupted", "stop-on", "target-busy", "lab",
)  # fmt: skip
_CHOICES: Mapping[str, tuple[str, Any]] = {
    "title": ("title", str),
    "interrupted": ("interrupted", Literal["leave", "rerun"]),
    "stop-on": ("stop_on", Literal["fail", "heal-failed"]),
    "target-busy": ("busy", Literal["refuse", "wait"]),
    "lab": ("lab", bool),
    "ladder": ("ladder", tuple[str, ...]),
}
_ENTRY = ("file", "rung", "approval", "settings", "seed")
_DRAW = ("count", "mix", "map", "arrivals", "rate", "accelerate", "seed")


def load_gameday(path: str | Path) -> Plan:
    """Read and check a plan and every experiment that it names. Raises SpecError with all mistakes, in file order."""
    file, problems = Path(path), Problems()
    problems.visit(str(file))
    found = None
    with suppress(EnoughProblems):
        text = read(file, problems)
        root = compose(str(file), text, problems) if text is not None else None
        found = _plan(file, root, problems) if root is not None else None
    if len(problems) or found is None:
        raise SpecError(tuple(problems))
    return found


def _plan(file: Path, root: Node, problems: Problems) -> Plan | None:
    reader = Reader(problems)
    entries = reader.mapping(root, "the plan of a game day", KEYS)
    if isinstance(root.value, dict) and ("experiments" in root.value) == ("draw" in root.value):
        problems.add(root.place, "a game day has `experiments`, or `draw`s them", "give one of the two")
    fields = {name: reader.read(entries[key], type_) for key, (name, type_) in _CHOICES.items() if key in entries}
    fields |= _times(entries, reader)
    ladder = fields.get("ladder", ())
    pieces = _Pieces(file.parent, () if ladder is INVALID else ladder, reader)
    drawn = None
    if "experiments" in entries:
        pieces.several(entries["experiments"], "`experiments`")
    elif "draw" in entries:
        drawn = _draw(entries["draw"], pieces, reader)
    if "approvals" in entries:
        fields["approvals"] = _approvals(entries["approvals"], pieces, reader)
    if "announce" in entries:
        fields["announce"] = _channels(entries["announce"], file.parent, reader)
    if len(problems) or INVALID in fields.values():
        return None
    whole = {"title": file.stem, **fields, "draw": drawn}
    return Plan(**whole, name=file.stem, path=str(file.resolve()), pieces=tuple(pieces.found))


def _times(entries: Mapping[str, Node], reader: Reader) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if "schedule" in entries:
        node = entries["schedule"]
        fields["timetable"] = timetable = reader.struct(node, Timetable, "`schedule`")
        if timetable is not INVALID and isinstance(node.value, dict):
            _check_schedule(timetable, node.value, reader.problems)
    if "blackouts" in entries:
        items = reader.sequence(entries["blackouts"], "`blackouts`")
        read_ = tuple(reader.struct(item, Blackout, "a blackout") for item in items)
        fields["blackouts"] = INVALID if INVALID in read_ else read_
    if "business-hours" in entries:
        fields["hours"] = reader.struct(entries["business-hours"], Hours, "`business-hours`")
    return fields


def _check_schedule(timetable: Timetable, below: Mapping[str, Node], problems: Problems) -> None:
    try:
        zone = zone_of(timetable.timezone)
    except ValueError as error:
        problems.add(below["timezone"].place, str(error))
        return
    try:
        trigger_of(timetable.cron, zone)
    except ValueError as error:
        problems.add(below["cron"].place, str(error), 'such as "0 10 * * fri"')
    except ImportError:
        problems.add(below["cron"].place, "a schedule needs APScheduler", 'pip install "mlchaos[schedule]"')


class _Pieces:
    """Experiments as they are named, each looked up once."""

    def __init__(self, base: Path, ladder: tuple[str, ...], reader: Reader) -> None:
        self.found: list[Piece] = []
        self._base, self._ladder, self._reader = base, ladder, reader

    @property
    def rungs(self) -> tuple[str, ...]:
        """Those that an approval may name."""
        return self._ladder or tuple(dict.fromkeys((*RUNGS, *(piece.rung for piece in self.found))))

    def several(self, node: Node, what: str) -> tuple[int, ...]:
        """The indices of what a list names; told where it names nothing."""
        items = self._reader.sequence(node, what)
        if isinstance(node.value, list) and not items:
            self._reader.problems.add(node.place, f"{what} is empty", "name at least one experiment")
        return tuple(index for index in map(self._one, items) if index is not None)

    def _one(self, node: Node) -> int | None:
        reader, problems = self._reader, self._reader.problems
        before = len(problems)
        below: dict[str, Node] = {"file": node}
        if not isinstance(node.value, str):
            below = reader.mapping(node, "an experiment of the plan", _ENTRY, ("file",))
        name: Any = reader.read(below["file"], str) if "file" in below else INVALID
        settings = reader.read(below["settings"], dict[str, Any]) if "settings" in below else {}
        ask = reader.read(below["approval"], Literal["ask", "none"]) if "approval" in below else None
        seed = reader.read(below["seed"], Annotated[int, Meta(ge=0)]) if "seed" in below else None
        declared = reader.read(below["rung"], str) if "rung" in below else None
        if declared is not None and self._ladder and declared not in (INVALID, *self._ladder):
            problems.add(below["rung"].place, f"no rung {show(declared)}", did_you_mean(str(declared), self._ladder))
        if len(problems) > before:
            return None
        overrides = {key: _written(value) for key, value in settings.items()}
        experiment = self._experiment(Path(normpath(self._base / name)), below["file"].place, overrides)
        if experiment is None:
            return None
        rung = declared or rung_of(experiment, self._ladder)
        if self._ladder and rung not in self._ladder:
            reason = f"`{experiment.name}` hits the rung `{rung}`, which the ladder has not"
            problems.add(below["file"].place, reason, "add it to the ladder, or declare `rung:`")
        self.found.append(
            Piece(
                file=str(Path(experiment.path).resolve()), name=experiment.name, title=experiment.title,
                target=str(Path(experiment.target.path).resolve()), rung=rung, derived=declared is None,
                seed=experiment.seed if seed is None else seed, wall=experiment.limits.wall,
                promises=promises(experiment), settings=overrides, ask=None if ask is None else ask == "ask",
            )
        )  # fmt: skip
        return len(self.found) - 1

    def _experiment(self, path: Path, place: Place, overrides: Mapping[str, str]) -> Any:
        problems = self._reader.problems
        if not path.is_file():
            near = did_you_mean(path.name, [p.name for p in path.parent.glob("*.yaml")]) if path.parent.is_dir() else ""
            problems.add(place, f"`{path}` is no file", near)
            return None
        try:
            return load_experiment(path, overrides=overrides)
        except SpecError as error:
            for problem in error.problems:
                problems.add(Place(problem.path, problem.line, problem.column), problem.reason, problem.fix)
            return None


def _written(value: Any) -> str:
    """A setting as it stands behind `--set name=`."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _draw(node: Node, pieces: _Pieces, reader: Reader) -> Draw | None:
    problems = reader.problems
    before = len(problems)
    below = reader.mapping(node, "`draw`", _DRAW, ("count", "mix", "map"))
    mix, usual = _mix(below["mix"], reader) if "mix" in below else ({}, None)
    stands_for = _stands_for(below["map"], mix, pieces, reader) if "map" in below else {}
    types: Mapping[str, Any] = {
        "count": Annotated[int, Meta(gt=0, le=10_000)],
        "arrivals": Literal["poisson", "back-to-back"],
        "rate": Rate,
        "accelerate": Positive,
        "seed": Annotated[int, Meta(ge=0)],
    }
    fields = {key: reader.read(below[key], type_) for key, type_ in types.items() if key in below}
    arrivals = fields.pop("arrivals", "poisson" if "rate" in below else "back-to-back")
    rate = fields.pop("rate", usual)
    if arrivals == "poisson" and rate is None:
        problems.add(below["arrivals"].place, "`arrivals: poisson` needs a rate", "such as `rate: 7.8/d`")
    for key in ("rate", "accelerate"):
        if arrivals == "back-to-back" and key in below:
            problems.add(below[key].place, f"`{key}` means nothing for experiments that follow each other", "remove it")
    known = len(problems) == before and "map" in below
    if known and not any(mix[category] and stands_for[category] for category in stands_for):
        problems.add(below["map"].place, "no category with a weight has an experiment, so nothing could be drawn")
    if len(problems) > before:
        return None
    return Draw(mix=mix, stands_for=stands_for, rate=rate if arrivals == "poisson" else None, **fields)


def _mix(node: Node, reader: Reader) -> tuple[Mapping[str, float], float | None]:
    """Category → weight, and the rate at which the named mixes were seen."""
    if isinstance(node.value, str):
        if node.value in MIXES:
            return MIXES[node.value]
        reader.problems.add(node.place, f"no mix {show(node.value)}", did_you_mean(node.value, MIXES))
        return {}, None
    weights = reader.read(node, dict[str, Annotated[float, Meta(ge=0)]])
    if weights is INVALID:
        return {}, None
    if not any(weights.values()):
        reader.problems.add(node.place, "a mix without any weight")
    return weights, None


def _stands_for(node: Node, mix: Mapping[str, float], pieces: _Pieces, reader: Reader) -> Mapping[str, tuple[int, ...]]:
    if not mix:
        return {}
    entries = reader.mapping(node, "`map`", tuple(mix))
    return {category: pieces.several(below, f"`{category}`") for category, below in entries.items()}


def _approvals(node: Node, pieces: _Pieces, reader: Reader) -> Any:
    found = reader.struct(node, Approvals, "`approvals`")
    if found is INVALID:
        return INVALID
    known = ("start", "each", *pieces.rungs)
    before = node.value["before"] if isinstance(node.value, dict) else node
    for item in before.value if isinstance(before.value, list) else []:
        if item.value not in known:
            reason = f"{show(item.value)} is nothing that an approval could come before"
            reader.problems.add(item.place, reason, did_you_mean(str(item.value), known))
    return found


def _channels(node: Node, base: Path, reader: Reader) -> Any:
    read_ = [reader.struct(item, Channel, "a channel") for item in reader.sequence(node, "`announce`")]
    if INVALID in read_:
        return INVALID
    return tuple(
        Channel(file=normpath(base.resolve() / channel.file)) if channel.file else channel for channel in read_
    )
