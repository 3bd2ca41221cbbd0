"""Store and coordinators as the processes they are, without a harness."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from targets.trainer import defects
from targets.trainer.settings import STORE_PORT, Address, Place, Settings
from targets.trainer.wire import Caller, Line

ROOT = Path(__file__).parents[3]


@pytest.fixture
def nodes() -> dict[str, str]:
    """Loopback addresses that nobody else uses just now."""
    net = f"127.{random.randrange(1, 255)}.{random.randrange(255)}"
    return {"s0": f"{net}.2", "n0": f"{net}.3", "n1": f"{net}.4"}


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def start(stack: ExitStack, program: str, member: str, nodes: dict[str, str], data: Path) -> subprocess.Popen[bytes]:
    given = {"CHAOS_MEMBER": member, "CHAOS_NODES": json.dumps(nodes), "CHAOS_SETTINGS": '{"nodes": 2}'}
    env = {**os.environ, **given, "CHAOS_DATA": str(data), "PYTHONPATH": str(ROOT)}
    env.pop("CHAOS_EVENTS", None)
    process = subprocess.Popen([sys.executable, "-m", f"targets.trainer.{program}"], env=env, cwd=data)
    stack.callback(process.wait)
    stack.callback(process.kill)
    return process


def said_by(address: Address, header: dict[str, object]) -> dict[str, object]:
    """What a coordinator answers, once it listens."""
    for _ in range(200):
        try:
            line = Line.connect(address, 1.0)
        except ConnectionRefusedError:
            time.sleep(0.05)
            continue
        try:
            line.send(header)
            return line.receive().header
        finally:
            line.close()
    raise TimeoutError(address)


def test_one_coordinator_leads_and_the_other_takes_over(
    stack: ExitStack, nodes: dict[str, str], tmp_path: Path
) -> None:
    place = Place(member="x", node="n0", nodes=nodes, data=tmp_path)
    settings = Settings(nodes=2)
    store = start(stack, "store", "store", nodes, tmp_path)
    first = start(stack, "coordinator", "coordinator-0", nodes, tmp_path)
    join = {"op": "join", "id": 1, "node": "n0", "member": "agent-n0", "pid": 1}
    assert said_by(place.coordinator(0, settings), join)["epoch"] == 1
    start(stack, "coordinator", "coordinator-1", nodes, tmp_path)
    assert said_by(place.coordinator(1, settings), join)["error"] == "not-leader"
    first.kill()
    caller = Caller(Address(nodes["s0"], STORE_PORT), "tester")
    stack.callback(caller.close)
    for _ in range(100):
        answer = said_by(place.coordinator(1, settings), join)
        if answer["ok"]:
            break
        time.sleep(0.05)
    assert answer["epoch"] == 2
    assert caller.call("generation.list")["generations"] == []
    store.terminate()
    assert store.wait(5) == 0


def test_a_process_that_runs_alone_knows_where_everybody_is(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CHAOS_NODES", "CHAOS_SETTINGS", "CHAOS_MEMBER", "CHAOS_NODE", "CHAOS_ADDRESS", "CHAOS_DATA"):
        monkeypatch.delenv(name, raising=False)
    settings = Settings.from_environment()
    place = Place.from_environment(settings, member="coordinator-0", node="n3")
    assert place.nodes == {"s0": "127.0.0.2", **{f"n{i}": f"127.0.0.{i + 3}" for i in range(4)}}
    assert place.address == "127.0.0.6"
    assert place.coordinators(settings) == (("127.0.0.6", 7200), ("127.0.0.3", 7201))


def test_the_environment_goes_before_the_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHAOS_SETTINGS", '{"nodes": 2, "defect": "no-fencing", "of-others": 1}')
    monkeypatch.setenv("CHAOS_ADDRESS", "10.77.0.9")
    settings = Settings.from_environment()
    assert (settings.nodes, settings.steps) == (2, Settings().steps)
    assert Place.from_environment(settings, member="x", node="n0").address == "10.77.0.9"
    assert defects.active(settings, defects.NO_FENCING)
    assert not defects.active(settings, defects.MARKER_FIRST)


def test_a_defect_that_nobody_knows_is_an_error() -> None:
    with pytest.raises(KeyError):
        defects.active(Settings(), "no-such")
