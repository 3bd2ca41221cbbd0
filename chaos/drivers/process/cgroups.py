"""Control groups of this machine, version 1 or 2: where we may make some, and what their files say and take."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from chaos.api import JSON

CONTROLLERS = ("cpu", "memory", "freezer")
PERIOD = (
    20_000  # microseconds in which a quota of processor time is counted; the kernel's own 100 ms makes long stutters
)
LEAST_QUOTA = 1_000  # microseconds that the kernel takes for a quota
PAGE = os.sysconf("SC_PAGE_SIZE")


class Place(NamedTuple):
    """A folder of a hierarchy, with the controllers that it has; `version` 1 or 2."""

    version: int
    folder: Path
    controllers: tuple[str, ...]


def places(mountinfo: str, own: str) -> list[Place]:
    """Where this process stands in each hierarchy that has something for us, from `/proc/self/mountinfo` and
    `/proc/self/cgroup`. A group of version 2 can always be frozen."""
    paths: dict[str, str] = {}
    for line in own.splitlines():
        number, controllers, path = line.split(":", 2)
        for controller in controllers.split(",") if controllers else ["2"] if number == "0" else []:
            paths[controller] = path
    found = []
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        root, mount = before.split()[3:5]
        kind, _, options = [*after.split(), "", "", ""][:3]
        if kind == "cgroup2" and "2" in paths:
            found.append(Place(2, _inside(mount, root, paths["2"]), CONTROLLERS))
        elif kind == "cgroup":
            named = [c for c in options.split(",") if c in paths]
            if useful := tuple(c for c in named if c in CONTROLLERS):
                found.append(Place(1, _inside(mount, root, paths[useful[0]]), useful))
    return found


def _inside(mount: str, root: str, path: str) -> Path:
    """A container sees a part of a hierarchy only, from `root` on."""
    within = path.removeprefix(root) if root != "/" and (path + "/").startswith(root.rstrip("/") + "/") else path
    return Path(mount + "/" + within.strip("/"))


def run_name(token: str) -> str:
    """The name of a run's folder of groups: whose it is, and which."""
    return f"chaos-{os.getpid() if token != '*' else '*'}-{token}"


class Ground:
    """The groups of one run: a folder of its name in each hierarchy where we may make one, and whose they are."""

    def __init__(self, name: str, found: Mapping[str, Place], missing: Mapping[str, str]) -> None:
        self.name = name
        self.places = found  # by controller
        self.missing = missing  # why a controller is not there

    @property
    def folders(self) -> tuple[Path, ...]:
        """The run's folder in each hierarchy, once each."""
        return tuple(dict.fromkeys(place.folder / self.name for place in self.places.values()))

    def make(self) -> None:
        """Make the run's folders; where one of version 2 has controllers, its groups get them."""
        for place in dict.fromkeys(self.places.values()):
            folder = place.folder / self.name
            folder.mkdir(exist_ok=True)
            if place.version == 2 and (wanted := [c for c in place.controllers if c != "freezer"]):
                _write(folder / "cgroup.subtree_control", " ".join(f"+{c}" for c in wanted))

    def group(self, name: str) -> Group:
        """A group of that name, made where it is not there yet."""
        folders = {}
        for controller, place in self.places.items():
            folders[controller] = place.folder / self.name / name
            folders[controller].mkdir(exist_ok=True)
        return Group(name, {c: (self.places[c].version, folder) for c, folder in folders.items()})

    def mechanism(self) -> str:
        """For people: `cgroups: cpu v1, memory v1, freezer v2`."""
        return ", ".join(f"{c} v{place.version}" for c, place in self.places.items())


class Group:
    """One group: the same name in each hierarchy."""

    def __init__(self, name: str, folders: Mapping[str, tuple[int, Path]]) -> None:
        self.name = name
        self._folders = folders

    @property
    def folders(self) -> tuple[Path, ...]:
        """In each hierarchy, once each."""
        return tuple(dict.fromkeys(folder for _, folder in self._folders.values()))

    def folder(self, controller: str) -> Path:
        return self._folders[controller][1]

    def version(self, controller: str) -> int:
        return self._folders[controller][0]

    def move_in(self, pid: int) -> None:
        """A process with all its threads; what it forks from now on is in as well."""
        for folder in self.folders:
            _write(folder / "cgroup.procs", str(pid))

    def remove(self) -> None:
        """Once nobody is in."""
        for folder in self.folders:
            folder.rmdir()

    def account(self, controller: str) -> JSON:
        """What the kernel has counted: `{throttled, throttled_seconds}`, `{bytes, limit, oom_kills}`, `{frozen}`."""
        version, folder = self._folders[controller]
        if controller == "cpu":
            stat = _table(folder / "cpu.stat")
            seconds = stat.get("throttled_time", 0) / 1e9 if version == 1 else stat.get("throttled_usec", 0) / 1e6
            return {"throttled": stat.get("nr_throttled", 0), "throttled_seconds": round(seconds, 6)}
        if controller == "memory":
            used, limit, events = _MEMORY[version]
            text = _read(folder / limit)
            return {
                "bytes": int(_read(folder / used)),
                "limit": None if text == "max" or int(text) > 1 << 60 else int(text),
                "oom_kills": _table(folder / events).get("oom_kill", 0),
            }
        if version == 1:
            return {"frozen": _read(folder / "freezer.state") == "FROZEN"}
        return {"frozen": _table(folder / "cgroup.events").get("frozen") == 1}

    def restrict(self, controller: str, value: float) -> JSON:
        """Set a limit: cores, bytes (0: what is in use now), or frozen; says where. Raises OSError."""
        version, folder = self._folders[controller]
        if controller == "cpu":
            period = max(PERIOD, -(-LEAST_QUOTA // value))
            quota = int(value * period)
            if version == 1:
                _write(folder / "cpu.cfs_period_us", f"{period:.0f}")
                _write(folder / "cpu.cfs_quota_us", str(quota))
            else:
                _write(folder / "cpu.max", f"{quota} {period:.0f}")
            return {"file": str(folder), "quota_us": quota, "period_us": int(period)}
        if controller == "memory":
            return {"file": str(folder), "limit": self._confine(version, folder, int(value))}
        _write(folder / ("freezer.state" if version == 1 else "cgroup.freeze"), "FROZEN" if version == 1 else "1")
        return {"file": str(folder)}

    def lift(self, controller: str) -> None:
        """No limit any more. Raises OSError."""
        version, folder = self._folders[controller]
        if controller == "cpu":
            _write(*((folder / "cpu.cfs_quota_us", "-1") if version == 1 else (folder / "cpu.max", "max")))
        elif controller == "memory":
            for name in ("memory.memsw.limit_in_bytes", "memory.limit_in_bytes") if version == 1 else ("memory.max",):
                with suppress(FileNotFoundError):
                    _write(folder / name, "-1" if version == 1 else "max")
            if version == 2:
                _write(folder / "memory.swap.max", "max")
        else:
            _write(folder / ("freezer.state" if version == 1 else "cgroup.freeze"), "THAWED" if version == 1 else "0")

    def undo(self, controller: str) -> str:
        """What lifts it by hand."""
        version, folder = self._folders[controller]
        file, value = {
            ("cpu", 1): ("cpu.cfs_quota_us", "-1"),
            ("cpu", 2): ("cpu.max", "max"),
            ("memory", 1): ("memory.limit_in_bytes", "-1"),
            ("memory", 2): ("memory.max", "max"),
            ("freezer", 1): ("freezer.state", "THAWED"),
            ("freezer", 2): ("cgroup.freeze", "0"),
        }[controller, version]
        return f"echo {value} > {folder / file}"

    def _confine(self, version: int, folder: Path, size: int) -> int:
        """As low as the kernel lets: version 1 takes no limit below what is in use and cannot be taken away."""
        if version == 2:
            with suppress(FileNotFoundError):
                _write(folder / "memory.swap.max", "0")  # else it would swap, and live
            limit = max(size or int(_read(folder / "memory.current")), PAGE)
            _write(folder / "memory.max", str(limit))
            return limit
        limit = max(size or int(_read(folder / "memory.usage_in_bytes")), PAGE)
        while True:
            try:
                _write(folder / "memory.limit_in_bytes", str(limit))
                break
            except OSError:
                used = int(_read(folder / "memory.usage_in_bytes"))
                limit = max(used, limit + 16 * PAGE)
        with suppress(OSError):  # counts swap as well; not in every kernel
            _write(folder / "memory.memsw.limit_in_bytes", str(limit))
        return limit


_MEMORY = {
    1: ("memory.usage_in_bytes", "memory.limit_in_bytes", "memory.oom_control"),
    2: ("memory.current", "memory.max", "memory.events"),
}


def find_ground(name: str) -> Ground:
    """Where groups for a run of that name can be made, each place really tried; empty where there is none."""
    found: dict[str, Place] = {}
    missing = dict.fromkeys(CONTROLLERS, "no hierarchy of control groups has it")
    try:
        there = places(Path("/proc/self/mountinfo").read_text(), Path("/proc/self/cgroup").read_text())
    except OSError as error:
        return Ground(name, {}, dict.fromkeys(CONTROLLERS, str(error)))
    # A freezer of version 2 lets SIGKILL through, so it comes first.
    for place in sorted(there, key=lambda place: -place.version):
        usable, why = _try(place, name)
        for controller in place.controllers:
            if controller in found:
                continue
            if usable is not None and controller in usable.controllers:
                found[controller] = usable
            else:
                missing[controller] = why or f"{place.folder} does not hand {controller} down"
    return Ground(name, found, {c: why for c, why in missing.items() if c not in found})


def _try(place: Place, name: str) -> tuple[Place | None, str]:
    """The nearest folder, up from our own, in which a process of ours can be moved into a group; else why not."""
    why = ""
    for folder in _upwards(place.folder):
        made = folder / f"{name}-try"
        try:
            made.mkdir()
        except OSError as error:
            why = why or f"no group can be made in {folder}: {error.strerror}"
            continue
        try:
            _enter(made)
            if place.version == 1:
                return Place(1, folder, place.controllers), ""
            known = _read(made / "cgroup.controllers").split()
            return Place(2, folder, tuple(c for c in CONTROLLERS if c in known or c == "freezer")), ""
        except OSError as error:
            why = why or f"no process can be moved into a group in {folder}: {error.strerror}"
        finally:
            with suppress(OSError):
                made.rmdir()
    return None, why


def _upwards(folder: Path) -> Iterator[Path]:
    while (folder / "cgroup.procs").exists():
        yield folder
        folder = folder.parent


def _enter(group: Path) -> None:
    """Have a child of ours moved into a group, and end it there."""
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", "input()"], stdin=subprocess.PIPE) as child:
        try:
            _write(group / "cgroup.procs", str(child.pid))
        finally:
            child.kill()


def _read(path: Path) -> str:
    return path.read_text().strip()


def _table(path: Path) -> dict[str, int]:
    return {key: int(value) for key, value in (line.split() for line in path.read_text().splitlines())}


def _write(path: Path, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)
