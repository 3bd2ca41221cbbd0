"""Every fault of the harness keeps the contract that `chaos.testing` states for all."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from chaos.api import Fault, Selector, Slot
from chaos.faults.checkpoint.corrupt import Corrupt
from chaos.faults.checkpoint.delete import Delete
from chaos.faults.checkpoint.plant import Plant
from chaos.faults.checkpoint.rewind import Rewind
from chaos.faults.checkpoint.swap import Swap
from chaos.faults.checkpoint.unmark import Unmark
from chaos.faults.clock.drift import Drift
from chaos.faults.clock.jump import Jump
from chaos.faults.clock.skew import Skew
from chaos.faults.compute.corrupt import Corrupt as CorruptValue
from chaos.faults.compute.loss_spike import LossSpike
from chaos.faults.compute.nan import Nan
from chaos.faults.compute.straggler import Straggler
from chaos.faults.data.corrupt_batch import CorruptBatch
from chaos.faults.data.slow_loader import SlowLoader
from chaos.faults.data.truncated_batch import TruncatedBatch
from chaos.faults.dependency.full import Full as FullStore
from chaos.faults.dependency.stampede import Stampede
from chaos.faults.dependency.wrong_values import WrongValues
from chaos.faults.domain.cascade import Cascade
from chaos.faults.domain.power_off import PowerOff
from chaos.faults.gpu.ecc import Ecc
from chaos.faults.gpu.kill import Kill as KillDevice
from chaos.faults.gpu.xid import Xid
from chaos.faults.network.bandwidth import Bandwidth
from chaos.faults.network.blackhole import Blackhole
from chaos.faults.network.bridge import Bridge
from chaos.faults.network.delay import Delay
from chaos.faults.network.dns import Dns
from chaos.faults.network.down import Down
from chaos.faults.network.isolate import Isolate
from chaos.faults.network.latency import Latency
from chaos.faults.network.limit_data import LimitData
from chaos.faults.network.loss import Loss
from chaos.faults.network.majorities_ring import MajoritiesRing
from chaos.faults.network.partition import Partition
from chaos.faults.network.rate import Rate
from chaos.faults.network.reset import Reset
from chaos.faults.network.slicer import Slicer
from chaos.faults.network.slow_close import SlowClose
from chaos.faults.objects.lose_response import LoseResponse
from chaos.faults.objects.slow import Slow as SlowRequests
from chaos.faults.objects.throttle import Throttle as ThrottleRequests
from chaos.faults.process.cgroup_freeze import CgroupFreeze
from chaos.faults.process.freeze import Freeze
from chaos.faults.process.kill import Kill
from chaos.faults.process.kill_agent import KillAgent
from chaos.faults.process.oom import Oom
from chaos.faults.process.preempt import Preempt
from chaos.faults.process.restart_loop import RestartLoop
from chaos.faults.storage.bit_rot import BitRot
from chaos.faults.storage.error import Error
from chaos.faults.storage.failed_fsync import FailedFsync
from chaos.faults.storage.full import Full
from chaos.faults.storage.kill import Kill as KillAtFile
from chaos.faults.storage.lost_write import LostWrite
from chaos.faults.storage.lying_fsync import LyingFsync
from chaos.faults.storage.power_cut import PowerCut
from chaos.faults.storage.read_only import ReadOnly
from chaos.faults.storage.short_read import ShortRead
from chaos.faults.storage.slow import Slow
from chaos.faults.storage.stale_metadata import StaleMetadata
from chaos.faults.storage.throttle import Throttle
from chaos.faults.storage.torn_write import TornWrite
from chaos.faults.writer.pause import Pause
from chaos.faults.writer.replay import Replay
from chaos.faults.writer.two_leaders import TwoLeaders
from chaos.registry import Registry
from chaos.testing import SLOTS, check_fault

from .conftest import saved
from .fitted import FittedTarget

NODE_1 = Selector(nodes=("n1",))
FAULTS: dict[str, Fault[Any]] = {
    "clock.drift": Drift(members=NODE_1, rate=0.5, direction="slow"),
    "clock.jump": Jump(members=NODE_1, by=3600.0, every=0.3),
    "clock.skew": Skew(members=NODE_1, by=30.0, direction="behind"),
    "compute.corrupt": CorruptValue(members=NODE_1),
    "compute.loss-spike": LossSpike(members=NODE_1),
    "compute.nan": Nan(members=NODE_1),
    "compute.straggler": Straggler(members=NODE_1),
    "data.corrupt-batch": CorruptBatch(members=NODE_1),
    "data.slow-loader": SlowLoader(members=NODE_1, seconds=0.1),
    "data.truncated-batch": TruncatedBatch(members=NODE_1),
    "dependency.full": FullStore(members=NODE_1),
    "dependency.stampede": Stampede(members=NODE_1),
    "dependency.wrong-values": WrongValues(members=NODE_1),
    "checkpoint.corrupt": Corrupt(),
    "checkpoint.delete": Delete(),
    "checkpoint.plant": Plant(),
    "checkpoint.rewind": Rewind(),
    "checkpoint.swap": Swap(),
    "checkpoint.unmark": Unmark(),
    "network.bandwidth": Bandwidth(link="store", members=NODE_1, rate=10_000),
    "network.blackhole": Blackhole(link="store", members=NODE_1, stream="downstream"),
    "gpu.ecc": Ecc(),
    "gpu.kill": KillDevice(device="gpu1"),
    "gpu.xid": Xid(),
    "network.bridge": Bridge(members=NODE_1),
    "network.delay": Delay(between=(NODE_1, Selector(rest=True)), delay=0.2, jitter=0.05),
    "domain.cascade": Cascade(members=Selector(nodes=("n0", "n1"))),
    "domain.power-off": PowerOff(members=NODE_1),
    "network.dns": Dns(members=NODE_1),
    "network.down": Down(link="store", members=NODE_1),
    "network.isolate": Isolate(members=NODE_1),
    "network.latency": Latency(link="store", members=NODE_1, latency=1.5),
    "network.limit-data": LimitData(link="store", members=NODE_1, bytes=1000),
    "network.loss": Loss(between=(NODE_1, Selector(rest=True)), loss=0.2),
    "network.majorities-ring": MajoritiesRing(members=Selector(roles=("agent",))),
    "network.partition": Partition(between=(NODE_1, Selector(rest=True))),
    "network.rate": Rate(between=(NODE_1, Selector(rest=True)), rate=100_000),
    "process.cgroup-freeze": CgroupFreeze(members=NODE_1),
    "network.reset": Reset(link="store", members=NODE_1),
    "network.slicer": Slicer(link="store", members=NODE_1, size=100),
    "network.slow-close": SlowClose(link="store", members=NODE_1, delay=1.0),
    "objects.lose-response": LoseResponse(),
    "objects.slow": SlowRequests(seconds=1.0),
    "objects.throttle": ThrottleRequests(),
    "writer.pause": Pause(members=NODE_1),
    "writer.replay": Replay(link="store", match="commit"),
    "writer.two-leaders": TwoLeaders(leader=Selector(roles=("coordinator",)), cut_from=NODE_1),
    "process.freeze": Freeze(members=NODE_1),
    "process.kill": Kill(members=NODE_1),
    "process.kill-agent": KillAgent(members=Selector(roles=("agent",))),
    "process.oom": Oom(members=NODE_1),
    "process.preempt": Preempt(members=NODE_1, grace=1.0),
    "storage.bit-rot": BitRot(members=NODE_1, path="store/**"),
    "storage.error": Error(path="**", members=NODE_1),
    "storage.failed-fsync": FailedFsync(path="**", members=NODE_1),
    "storage.full": Full(path="**", members=NODE_1),
    "storage.kill": KillAtFile(path="**", members=NODE_1, ops=("rename",)),
    "storage.lost-write": LostWrite(path="**", members=NODE_1),
    "storage.lying-fsync": LyingFsync(path="**"),
    "storage.read-only": ReadOnly(path="**", members=NODE_1),
    "storage.slow": Slow(path="**", delay=1.0, members=NODE_1),
    "storage.power-cut": PowerCut(members=NODE_1),
    "process.restart-loop": RestartLoop(members=NODE_1),
    "storage.short-read": ShortRead(members=NODE_1, path="store/**"),
    "storage.stale-metadata": StaleMetadata(members=NODE_1),
    "storage.throttle": Throttle(members=NODE_1, rate=1_000_000),
    "storage.torn-write": TornWrite(members=NODE_1, path="store/**"),
}

BOUND = [replace(slot, domains={"device": f"gpu{slot.rank}"}) if slot.rank is not None else slot for slot in SLOTS]
PLACES = {
    "gpu.kill": BOUND,
    "network.majorities-ring": [Slot(name=f"agent-n{i}", role="agent", node=f"n{i}") for i in range(5)],
}


def test_every_fault_that_is_found_is_checked_here() -> None:
    registry = Registry(entry_points=False)
    assert set(registry.kinds("faults")) == FAULTS.keys()
    assert {kind: registry.fault(kind) for kind in FAULTS} == {kind: type(fault) for kind, fault in FAULTS.items()}


@pytest.mark.anyio
@pytest.mark.parametrize("kind", FAULTS)
async def test_it_keeps_the_contract(kind: str, tmp_path: Path, dcgmi: Path) -> None:
    folders, slots = itertools.count(), PLACES.get(kind, SLOTS)
    await check_fault(FAULTS[kind], lambda: FittedTarget(slots, folder=saved(tmp_path / str(next(folders)))))
