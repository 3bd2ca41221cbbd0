"""Where groups can be made, and what is written into their files: both versions, in folders that look like them."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.drivers.process import cgroups
from chaos.drivers.process.cgroups import Group, Place, places

HYBRID = """\
30 25 0:26 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:11 - cgroup cgroup rw,cpu,cpuacct
31 25 0:27 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
32 25 0:28 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
33 25 0:29 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
"""
CONTAINER = "40 25 0:30 /docker/abc /sys/fs/cgroup rw,relatime - cgroup2 cgroup rw,nsdelegate\n"


def test_each_hierarchy_is_found_with_our_place_in_it() -> None:
    own = "4:memory:/user/me\n3:cpu,cpuacct:/\n2:pids:/x\n0::/session\n"
    assert places(HYBRID, own) == [
        Place(1, Path("/sys/fs/cgroup/cpu,cpuacct"), ("cpu",)),
        Place(1, Path("/sys/fs/cgroup/memory/user/me"), ("memory",)),
        Place(2, Path("/sys/fs/cgroup/unified/session"), ("cpu", "memory", "freezer")),
    ]


def test_a_container_sees_its_own_part_as_the_root() -> None:
    (place,) = places(CONTAINER, "0::/docker/abc/inner\n")
    assert place.folder == Path("/sys/fs/cgroup/inner")
    (place,) = places(CONTAINER, "0::/\n")
    assert place.folder == Path("/sys/fs/cgroup/")


@pytest.fixture
def second(tmp_path: Path) -> Group:
    """A group of version 2."""
    for name, text in {
        "cpu.stat": "usage_usec 9\nnr_periods 5\nnr_throttled 3\nthrottled_usec 2500\n", "cpu.max": "max 100000",
        "memory.current": "40960", "memory.max": "max", "memory.swap.max": "max",
        "memory.events": "low 0\noom 1\noom_kill 2\n", "cgroup.events": "populated 1\nfrozen 0\n",
        "cgroup.freeze": "0", "cgroup.procs": "",
    }.items():  # fmt: skip
        (tmp_path / name).write_text(text)
    return Group("g", dict.fromkeys(cgroups.CONTROLLERS, (2, tmp_path)))


def test_version_2_is_limited_and_freed_by_its_own_files(second: Group, tmp_path: Path) -> None:
    assert second.account("cpu") == {"throttled": 3, "throttled_seconds": 0.0025}
    assert second.account("memory") == {"bytes": 40960, "limit": None, "oom_kills": 2}
    assert second.account("freezer") == {"frozen": False}
    second.restrict("cpu", 0.25)
    assert (tmp_path / "cpu.max").read_text() == "5000 20000"
    second.restrict("cpu", 0.01)  # the kernel takes no quota below a millisecond
    assert (tmp_path / "cpu.max").read_text() == "1000 100000"
    second.restrict("memory", 0)
    assert (tmp_path / "memory.max").read_text() == "40960"
    assert (tmp_path / "memory.swap.max").read_text() == "0"
    assert second.account("memory")["limit"] == 40960
    second.restrict("freezer", 1)
    assert (tmp_path / "cgroup.freeze").read_text() == "1"
    for controller in cgroups.CONTROLLERS:
        second.lift(controller)
    files = ("cpu.max", "memory.max", "memory.swap.max", "cgroup.freeze")
    assert [(tmp_path / name).read_text() for name in files] == ["max", "max", "max", "0"]
    assert second.undo("memory") == f"echo max > {tmp_path}/memory.max"


def test_where_nothing_may_be_made_the_reason_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "cgroup.procs").touch()
    (tmp_path / "chaos-x-try").touch()  # in the way of the folder
    monkeypatch.setattr(cgroups, "places", lambda *_: [Place(2, tmp_path, ("cpu", "memory", "freezer"))])
    ground = cgroups.find_ground("chaos-x")
    assert ground.places == {}
    assert ground.missing["cpu"] == f"no group can be made in {tmp_path}: File exists"


def test_a_folder_that_takes_no_process_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "cgroup.procs").touch()
    monkeypatch.setattr(cgroups, "places", lambda *_: [Place(1, tmp_path, ("cpu",))])
    monkeypatch.setattr(cgroups, "_enter", lambda group: (_ for _ in ()).throw(OSError(1, "Operation not permitted")))
    ground = cgroups.find_ground("chaos-x")
    assert "no process can be moved into a group" in ground.missing["cpu"]
    assert "no hierarchy" in ground.missing["memory"]
    assert not list(tmp_path.glob("chaos-*"))
