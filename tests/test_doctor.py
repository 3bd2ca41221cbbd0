"""What the doctor finds, and that it says why and what to do where something is missing."""

from __future__ import annotations

import platform
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from anyio.abc import SocketStream

from chaos import doctor
from chaos.api import JSON, Driver, Launch, Slot, Stage, Target
from chaos.drivers.process import Process
from chaos.drivers.process.cgroups import Ground
from chaos.drivers.process.fittings import groups, streams
from chaos.errors import TargetError
from chaos.testing import FakeTarget


class Lab(Driver, frozen=True, kw_only=True):
    """Opens a fake, or fails to."""

    fails: str = ""

    def slots(self, spec: JSON) -> tuple[Slot, ...]:
        return ()

    @asynccontextmanager
    async def open(self, launch: Launch, stage: Stage) -> AsyncIterator[Target]:
        if self.fails == "closed":
            raise TargetError("the lab cannot be built: cut; closed", "--no-lab runs without it")
        yield FakeTarget(numb=self.fails == "leaks")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.slow
def test_every_ability_has_a_row_and_what_is_missing_a_way_to_get_it() -> None:
    rows = doctor.examine(Process())
    assert [row.name for row in rows] == [
        "machine", "user namespaces", "lab", "nftables", "loss", "rate", "streams", "groups", "recording",
        "exchanges", "clock", "netem", "file tap", "fuse", "power cut", "docker", "slurm", "nvml", "toxiproxy",
        "torch", "command",
    ]  # fmt: skip
    for row in rows:
        assert row.detail, row.name
        assert row.ok != bool(row.fix), f"{row.name}: a fix exactly where one is needed"


@pytest.mark.anyio
async def test_a_lab_that_works_is_proved_by_a_dropped_packet() -> None:
    built, links, *_ = await doctor.lab(Lab())
    assert built.ok
    assert links.ok


@pytest.mark.anyio
async def test_a_lab_that_cannot_be_built_says_why_and_how_to_go_on() -> None:
    built, links, *_ = await doctor.lab(Lab(fails="closed"))
    assert (built.ok, built.detail) == (False, "the lab cannot be built: cut; closed")
    assert built.fix == "--no-lab runs without it"
    assert not links.ok


@pytest.mark.slow
@pytest.mark.anyio
async def test_what_a_lab_lacks_is_told_once_and_its_fix_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(name: str) -> Ground:
        return Ground(name, {}, {"cpu": "no group can be made", "memory": "no hierarchy has it"})

    monkeypatch.setattr(groups, "find_ground", nowhere)
    monkeypatch.setattr(streams, "find_spec", lambda name: None)
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    rows = {row.name: row for row in await doctor.lab(Process())}
    assert (rows["groups"].detail, rows["groups"].fix) == (
        "no control groups: no group can be made; no hierarchy has it",
        "be root, or start chaos below a group that is yours: systemd-run --user --scope chaos run …; "
        "without groups stragglers are made by signals, and no memory by ulimit",
    )
    assert (rows["streams"].detail, rows["streams"].fix) == (
        "h11 is not installed", "pip install 'mlchaos[network]'; or --no-lab and a Toxiproxy server"
    )  # fmt: skip
    assert rows["clock"].detail == "this machine is riscv64"
    assert rows["clock"].fix == "clocks are shifted on x86-64 only; without it faults of clocks are refused"


@pytest.mark.anyio
async def test_a_cut_without_effect_is_not_taken_for_one() -> None:
    built, links, *_ = await doctor.lab(Lab(fails="leaks"))
    assert built.ok
    assert not links.ok
    assert "packets pass" in links.detail


@pytest.mark.anyio
async def test_a_check_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def hangs() -> list[doctor.Row]:
        await anyio.sleep_forever()
        raise AssertionError

    for name in ("user_namespaces", "netem", "file_tap", "fuse", "power_cut", "docker", "slurm", "nvml", "toxiproxy"):
        monkeypatch.setattr(doctor, name, hangs)
    monkeypatch.setattr(doctor, "LIMIT", 0.01)
    rows = {row.name: row for row in await doctor.examine_async(None)}
    assert rows["nvml"].detail == "no answer within 0.01 s"
    assert rows["torch"].detail != "no answer within 0.01 s"


@pytest.mark.anyio
async def test_a_docker_that_answers_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "docker.sock"
    monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")
    (missing,) = await doctor.docker()
    assert not missing.ok
    async with anyio.create_task_group() as tasks, await anyio.create_unix_listener(path) as listener:

        async def answer(stream: SocketStream) -> None:
            async with stream:
                await stream.receive()
                await stream.send(b"HTTP/1.0 200 OK\r\n\r\nOK")

        tasks.start_soon(listener.serve, answer)
        (row,) = await doctor.docker()
        assert row.ok
        assert row.detail.endswith("HTTP/1.0 200 OK")
        tasks.cancel_scope.cancel()


@pytest.mark.anyio
async def test_another_command_of_the_same_name_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    other = tmp_path / "chaos"
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    (row,) = await doctor.other_commands()
    assert (row.ok, row.detail, row.fix) == (False, str(other), "call this one `mlchaos`")
    monkeypatch.setenv("PATH", "/nowhere")
    (row,) = await doctor.other_commands()
    assert row.ok
