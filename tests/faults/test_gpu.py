"""Faults of devices: with a library and a program of our own in the place of NVIDIA's."""

from __future__ import annotations

import math
import os
import sys
import types
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from chaos.api import Selector
from chaos.errors import NotLanded, Unsupported
from chaos.faults.gpu import _nvml, _reports
from chaos.faults.gpu.ecc import Ecc
from chaos.faults.gpu.kill import Kill
from chaos.faults.gpu.xid import Xid
from chaos.selection import select
from chaos.testing import SLOTS

from .conftest import Hit
from .fitted import FittedTarget

pytestmark = pytest.mark.anyio
BOUND = [replace(s, domains={"device": f"gpu{s.rank}"}) if s.rank is not None else s for s in SLOTS]
KILL = Kill(device="gpu1")


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread's time is not the virtual clock's."""
    monkeypatch.setattr(_nvml, "ANSWERS_WITHIN", math.inf)


@pytest.fixture
def bound() -> FittedTarget:
    return FittedTarget(BOUND)


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> dict[int, list[int]]:
    """Process ids by device; a device that is not there is an error of the library."""
    devices: dict[int, list[int]] = {}
    library: Any = types.ModuleType("pynvml")

    class Error(Exception):
        pass

    def handle(index: int) -> int:
        if index not in devices:
            raise Error("Not Found")
        return index

    library.NVMLError = Error
    library.nvmlInit = library.nvmlShutdown = lambda: None
    library.nvmlDeviceGetHandleByIndex = handle
    library.nvmlDeviceGetUUID = lambda device: f"GPU-{device}"
    library.nvmlDeviceGetComputeRunningProcesses = lambda d: [types.SimpleNamespace(pid=p) for p in devices[d]]
    library.nvmlDeviceGetGraphicsRunningProcesses = lambda d: []
    monkeypatch.setitem(sys.modules, "pynvml", library)
    return devices


async def test_what_the_driver_lists_is_killed_and_strangers_are_left_alone(
    bound: FittedTarget, hit: Hit, nvml: dict[int, list[int]]
) -> None:
    nvml[1] = [bound.member("worker-n2").pid, 99999]  # not whom the target file says
    async with KILL.inject(bound, *hit(KILL, bound)) as landing:
        assert [m["member"] for m in landing.evidence["members"]] == ["worker-n2"]
    assert landing.evidence["binding"] == "nvml"
    assert (landing.evidence["uuid"], landing.evidence["left-alone"]) == ("GPU-1", [99999])
    assert bound.state(bound.member("worker-n1")) == "S"


async def test_without_the_driver_the_ranks_of_the_topology_are_hit_and_the_evidence_says_so(
    bound: FittedTarget, hit: Hit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    async with KILL.inject(bound, *hit(KILL, bound)) as landing:
        assert [m["member"] for m in landing.evidence["members"]] == ["worker-n1"]
    assert landing.evidence["binding"] == "topology"
    assert "mlchaos[gpu]" in landing.evidence["why"]
    assert bound.state(bound.member("agent-n1")) == "S"


async def test_a_device_that_nobody_of_the_target_uses(
    bound: FittedTarget, hit: Hit, nvml: dict[int, list[int]]
) -> None:
    nvml[1] = [99999]
    strict = Kill(device="gpu1", by="nvml")
    with pytest.raises(NotLanded, match="no process of the target is on device 1"):
        async with strict.inject(bound, *hit(strict, bound)):
            pass
    async with KILL.inject(bound, *hit(KILL, bound)) as landing:
        assert "no process of the target" in landing.evidence["why"]


async def test_a_device_that_is_not_there_is_refused_when_the_driver_is_asked_for(
    bound: FittedTarget, hit: Hit, nvml: dict[int, list[int]]
) -> None:
    strict = Kill(device="gpu1", by="nvml")
    with pytest.raises(Unsupported, match="NVML does not know device 1: Not Found"):
        async with strict.inject(bound, *hit(strict, bound)):
            pass
    assert bound.state(bound.member("worker-n1")) == "S"


async def test_a_device_is_a_failure_domain_of_its_ranks_alone(bound: FittedTarget) -> None:
    (found,) = select((Selector(domains={"device": "gpu2"}),), BOUND, bound.members(), bound.nodes())
    assert [m.name for m in found.members] == ["worker-n2"]
    assert found.nodes == ()


async def test_a_report_goes_to_those_who_watch_dcgm(bound: FittedTarget, dcgmi: Path) -> None:
    async with Xid(xid=48, gpu=3).inject(bound) as landing:
        assert landing.evidence["xid"] == 48
    async with Ecc(bits="single", count=7).inject(bound):
        pass
    assert asked(dcgmi) == [
        "test --inject --gpuid 3 -f 230 -v 48", "test --inject --gpuid 0 -f 318 -v 7",
    ]  # fmt: skip


def asked(said: Path) -> list[str]:
    return said.read_text().splitlines()


async def test_without_dcgm_a_report_is_refused(bound: FittedTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    for fault in (Xid(), Ecc()):
        with pytest.raises(Unsupported, match="dcgmi is not on the path"):
            async with fault.inject(bound):
                pass


async def test_dcgm_that_does_not_inject_is_no_report(
    bound: FittedTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "dcgmi"
    program.write_text("#!/bin/sh\necho 'Error: unable to connect to host engine'\nexit 255\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/bin")
    with pytest.raises(NotLanded, match="unable to connect to host engine"):
        async with Xid().inject(bound):
            pass


async def test_the_kernel_log_of_the_host_is_not_written_to_unasked(bound: FittedTarget) -> None:
    with pytest.raises(Unsupported, match="allow: \\[host-kernel-log\\]"):
        async with Xid(by="kernel-log").inject(bound):
            pass


async def test_a_line_in_the_kernel_log_is_read_back(
    bound: FittedTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "kmsg")  # gives back what was written, as the log does
    monkeypatch.setattr(_reports, "KERNEL_LOG", str(tmp_path / "kmsg"))
    fault = Xid(by="kernel-log", xid=79, pci="0000:3b:00", allow=("host-kernel-log",))
    async with fault.inject(bound) as landing:
        assert "NVRM: Xid (PCI:0000:3b:00): 79" in landing.evidence["record"]
    monkeypatch.setattr(_reports, "KERNEL_LOG", str(tmp_path / "missing"))
    with pytest.raises(Unsupported, match="cannot be opened"):
        async with fault.inject(bound):
            pass


async def test_a_line_that_does_not_arrive_is_no_report(
    bound: FittedTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kmsg").touch()  # a file is read from behind what was written
    monkeypatch.setattr(_reports, "KERNEL_LOG", str(tmp_path / "kmsg"))
    with pytest.raises(NotLanded, match="is not there"):
        async with Xid(by="kernel-log", allow=("host-kernel-log",)).inject(bound):
            pass
