"""Where a bench works, and experiments of ours written for it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaos.history import Event
from chaos.journal import read

from .peer import Peer
from .processes import BenchError, said

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Place:
    """A folder for files, the peer where there is one, and the options that every run of ours gets."""

    folder: Path
    peer: Peer | None
    options: tuple[str, ...] = ()  # such as --no-lab where user namespaces are closed

    def scratch(self, name: str) -> Path:
        """A new folder."""
        folder = self.folder / name
        folder.mkdir(parents=True)
        return folder

    def run(self, experiment: Path, *more: str) -> list[str]:
        """The call that runs an experiment of ours; its run's folder goes below `experiment.parent / "runs"`."""
        return chaos("run", str(experiment), "--quiet", "--out", str(experiment.parent / "runs"), *self.options, *more)


def chaos(*arguments: str) -> list[str]:
    """A call of our command line as installed."""
    return [str(Path(sys.executable).with_name("chaos")), *arguments]


def journal(folder: Path) -> Path:
    """The journal of the one run below `folder / "runs"`."""
    found = [f for f in folder.glob("runs/*/journal.jsonl") if not f.parent.is_symlink()]
    if len(found) != 1:
        raise BenchError(f"{len(found)} journals where one was expected; {said(folder)}")
    return found[0]


def events(folder: Path) -> list[Event]:
    """All events of the one run."""
    return list(read(journal(folder)))


def member(name: str, *arguments: str, role: str = "", ready: str = "") -> dict[str, Any]:
    """A member that runs `tests.bench.members` with these arguments."""
    about: dict[str, Any] = {"name": name, "role": role or name, "node": "n0"}
    about["command"] = ["python", "-m", "tests.bench.members", *arguments]
    return {**about, "ready": {"event": ready, "within": "20s"}} if ready else about


def write(
    folder: Path,
    members: Iterable[Mapping[str, Any]],
    method: Sequence[Mapping[str, Any]] = (),
    *,
    ends: str | None = None,
    announced: Iterable[Mapping[str, Any]] = (),
    **more: Any,
) -> Path:
    """An experiment on a small target; the target has ended when the member of role `ends` exits."""
    programs = list(members)
    target: dict[str, Any] = {
        "name": "bench", "driver": "process", "workdir": str(ROOT), "nodes": [{"name": "n0"}] if programs else [],
        "members": programs, "announced": list(announced), "stop-grace": "1s",
        "events": {"member.ready": [], "tick.happened": ["n"], "step.completed": ["step", "rank"]},
    }  # fmt: skip
    if ends is not None:
        target["ends"] = {"role": ends, "codes": [0]}
    (folder / "target.yaml").write_text(json.dumps(target, indent=1))
    file = folder / "bench.yaml"
    body = {"title": "bench", "target": "target.yaml", "method": list(method), **more}
    file.write_text(json.dumps(body, indent=1))  # JSON is YAML
    return file
