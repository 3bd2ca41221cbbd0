"""Which build of a target is tested: a digest over its files, and the commit of the repository around them."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from chaos.errors import SpecError
from chaos.evidence import Build

# What a run or a tool leaves between sources: not what is tested.
_SKIPPED = frozenset({"__pycache__", "node_modules"})
# The same, unless they directly hold code: `dist` is also what a package about distribution is called.
_OUTPUTS = frozenset({"runs", "build", "dist"})
_SKIPPED_ENDS = (".pyc", ".pyo", ".swp", "~", ".egg-info")
_GIT_WITHIN = 10.0


def build_of(target: Path, sources: Iterable[str]) -> Build:
    """The build of the target whose file is `target`; `sources` are files and folders, relative to its folder.

    SpecError where one of them is not there. Outside a repository, or without git, only the digest is known.
    """
    found = files(target, sources)
    oid, dirty = commit(target.parent)
    return Build(sources=digest(target, found), commit=oid, dirty=dirty)


def files(target: Path, sources: Iterable[str]) -> list[Path]:
    """The target file and all files of its sources, sorted; hidden ones and what tools leave are none."""
    found = {target.resolve()}
    for source in sources:
        path = target.parent / source
        if path.is_dir():
            found.update(p.resolve() for p in _below(path))
        elif path.is_file():
            found.add(path.resolve())
        else:
            raise SpecError(f"{target}: `sources`: there is no {source} in {target.parent}")
    return sorted(found)


def digest(target: Path, found: Iterable[Path]) -> str:
    """Over names and contents: SHA-256, the first 16 bytes in hex.

    Names count from the target's folder, so that a clone elsewhere is the same build.
    """
    whole = hashlib.sha256()
    base = target.parent.resolve()
    for path in found:
        name = os.path.relpath(path, base).encode(errors="surrogateescape")
        try:
            content = path.read_bytes()
        except OSError as error:
            raise SpecError(f"{path}: {error.strerror}; it is one of the target's sources") from error
        whole.update(b"%d %s %d " % (len(name), name, len(content)))
        whole.update(content)
    return whole.hexdigest()[:32]


def _below(folder: Path) -> Iterator[Path]:
    """Links to folders of the same repository are followed, each folder once: what lies behind one runs like all else.
    One that leads elsewhere, to data mostly, is not."""
    seen: set[Path] = set()
    home = _home(folder.resolve())
    for at, folders, names in os.walk(folder, followlinks=True):
        here = Path(at)
        if (real := here.resolve()) in seen or not real.is_relative_to(home):
            folders.clear()
            continue
        seen.add(real)
        folders[:] = sorted(f for f in folders if not _left_out(f) and not _output(here / f))
        yield from (here / name for name in names if not _left_out(name) and (here / name).is_file())


def _left_out(name: str) -> bool:
    return name.startswith(".") or name in _SKIPPED or name.endswith(_SKIPPED_ENDS)


def _home(folder: Path) -> Path:
    """The repository around a folder; the folder itself where there is none."""
    return next((above for above in (folder, *folder.parents) if (above / ".git").exists()), folder)


def _output(folder: Path) -> bool:
    return folder.name in _OUTPUTS and not any(folder.glob("*.py"))


def _elsewhere(environment: Mapping[str, str]) -> dict[str, str]:
    """Without what a hook is given: it names the repository that was pushed to, which need not be the folder's."""
    own = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX")
    return {name: value for name, value in environment.items() if name not in own}


def commit(folder: Path) -> tuple[str, bool]:
    """The commit of the repository around a folder, "" where there is none, and whether files differ from it."""
    asked = ["git", "-C", str(folder), "status", "--porcelain=v2", "--branch", "--untracked-files=no"]
    try:
        done = subprocess.run(
            asked, capture_output=True, text=True, check=False, timeout=_GIT_WITHIN,
            env={**_elsewhere(os.environ), "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"},
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return "", False
    if done.returncode:
        return "", False
    lines = done.stdout.splitlines()
    oid = next((line.split()[2] for line in lines if line.startswith("# branch.oid ")), "")
    return ("" if oid == "(initial)" else oid), any(not line.startswith("#") for line in lines)
