"""Faults inside a real process: what passes its sites is really changed, and no more once they are healed."""

from __future__ import annotations

import itertools
import json
import os
import socket
import struct
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from chaos.api import Fault, Hooks, Landing, Launch, Selection, Selector
from chaos.drivers.process import Process
from chaos.errors import NotLanded
from chaos.faults.compute.corrupt import Corrupt
from chaos.faults.compute.loss_spike import LossSpike
from chaos.faults.compute.nan import Nan
from chaos.faults.data.corrupt_batch import CorruptBatch
from chaos.faults.data.slow_loader import SlowLoader
from chaos.faults.data.truncated_batch import TruncatedBatch
from chaos.history import Event
from chaos.testing import Recorder

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
EVERYONE = Selector(roles=("program",))
FLOATS = "values = bytearray(struct.pack('<8f', *[0.5] * 8))"
# Each round offers fresh values, and says what came of them and how long it took.
MEMBER = f"""
    import struct, sys, time
    from chaos import inside
    inside.hello("a", role="program")
    inside.sites("values", "batch")
    inside.emit("it.runs")
    step = 0
    while True:
        {FLOATS}
        batch = bytearray(b"text" * 25)
        began = time.monotonic()
        inside.tamper("values", values, step=step, name="w")
        inside.tamper("batch", batch, step=step)
        took = time.monotonic() - began
        inside.emit("round.done", step=step, values=list(struct.unpack("<8f", values)), batch=batch.decode("latin-1"),
                    took=took)
        step += 1
        time.sleep(0.005)
"""
CLEAN = [0.5] * 8


@asynccontextmanager
async def running(stage: Recorder, launch: Callable[..., Launch], source: str = MEMBER) -> AsyncIterator[Any]:
    async with Process().open(launch({"a": source}, lab=False), stage) as target:
        await stage.until("it.runs")
        assert isinstance(target, Hooks)
        yield target


def selected(target: Any) -> Selection:
    return Selection(members=target.members(), nodes=())


@asynccontextmanager
async def hitting(target: Any, fault: Fault[Any]) -> AsyncIterator[Landing]:
    """The fault, once it has hit."""
    async with fault.inject(target, selected(target)) as landing:
        assert landing.hit is not None
        landing.evidence = await landing.hit(lambda: None)
        yield landing


async def one_round(stage: Recorder, kind: str = "round.done") -> Event:
    """A round that began after now."""
    done = len([e for e in stage.events if e.kind == kind])
    return await stage.until(kind, times=done + 2)


async def hit_of(stage: Recorder, target: Any, fault: Fault[Any]) -> tuple[dict[str, Any], Event, dict[str, Any]]:
    """The first hit in the evidence, the round that it fell into, and the evidence of the heal."""
    async with hitting(target, fault) as landing:
        (hit,) = landing.evidence["hits"]
        await one_round(stage)
    step = hit["where"]["step"]
    return hit, next(e for e in stage.events if e.kind == "round.done" and e.get("step") == step), landing.healed


def bits(value: float) -> str:
    word: int = struct.unpack("<I", struct.pack("<f", value))[0]
    return f"{word:08x}"


@pytest.mark.parametrize(("bit", "expected"), [("sign", -0.5), ("exponent", 2.0**127), ("mantissa", 0.75), (0, None)])
async def test_a_transient_flip_hits_one_element_once(
    stage: Recorder, launch: Callable[..., Launch], bit: Any, expected: float | None
) -> None:
    async with running(stage, launch) as target:
        hit, done, healed = await hit_of(stage, target, Corrupt(members=EVERYONE, site="values", bit=bit))
        changed = [v for v in done.get("values") if v != 0.5]
        assert len(changed) == 1
        assert expected is None or changed == [expected]
        assert done.get("values")[hit["index"]] == changed[0]
        assert (hit["before"], hit["after"]) == (bits(0.5), bits(changed[0]))
        assert healed["disarmed"][0]["hits"] == 1
        assert (await one_round(stage)).get("values") == CLEAN


async def test_the_moment_is_chosen_by_the_fields_of_the_site(stage: Recorder, launch: Callable[..., Launch]) -> None:
    async with running(stage, launch) as target:
        now = (await one_round(stage)).get("step")
        fault = Corrupt(members=EVERYONE, site="values", where={"name": "w"}, since={"step": now + 20})
        hit, _, _ = await hit_of(stage, target, fault)
        assert hit["where"] == {"step": now + 20, "name": "w"}


async def test_a_stuck_bit_stays_until_it_is_healed(stage: Recorder, launch: Callable[..., Launch]) -> None:
    async with running(stage, launch) as target:
        fault = Corrupt(members=EVERYONE, site="values", bit=22, persistence="stuck-at")
        async with hitting(target, fault):
            assert [(await one_round(stage)).get("values").count(0.75) for _ in range(3)] == [1, 1, 1]
        assert (await one_round(stage)).get("values") == CLEAN


async def test_a_bit_that_already_is_as_it_is_stuck_is_no_hit(stage: Recorder, launch: Callable[..., Launch]) -> None:
    async with running(stage, launch) as target:
        fault = Corrupt(members=EVERYONE, site="values", bit=22, persistence="stuck-at", value=0, within=0.3)
        with pytest.raises(NotLanded, match="nothing was hit"):
            async with hitting(target, fault):
                pass
        assert not [e for e in stage.events if e.kind == "hook.hit"]


async def test_an_intermittent_flip_is_decided_by_its_seed(stage: Recorder, launch: Callable[..., Launch]) -> None:
    async with running(stage, launch) as target:

        async def gaps(seed: int) -> list[int]:
            fault = Corrupt(members=EVERYONE, site="values", persistence="intermittent", rate=0.3, seed=seed)
            since = len(stage.events)
            async with hitting(target, fault):
                with anyio.fail_after(10):
                    while len(hits := [e for e in stage.events[since:] if e.kind == "hook.hit"]) < 5:  # noqa: ASYNC110
                        await anyio.sleep(0.01)
            steps = [e.get("where")["step"] for e in hits]
            return [b - a for a, b in itertools.pairwise(steps)]

        first = await gaps(1)
        assert await gaps(1) == first
        assert set(first) != {1}


async def test_a_nan_and_a_spike_are_really_in_the_values(stage: Recorder, launch: Callable[..., Launch]) -> None:
    async with running(stage, launch) as target:
        _, done, _ = await hit_of(stage, target, Nan(members=EVERYONE, site="values"))
        assert [v for v in done.get("values") if v != 0.5] == ["NaN"]
        _, done, _ = await hit_of(stage, target, LossSpike(members=EVERYONE, site="values", factor=100.0))
        assert done.get("values") == [50.0] * 8


async def test_batches_are_overwritten_cut_off_and_held_up(stage: Recorder, launch: Callable[..., Launch]) -> None:
    async with running(stage, launch) as target:
        hit, done, _ = await hit_of(stage, target, CorruptBatch(members=EVERYONE, share=0.2))
        assert hit["before"] != hit["after"]
        text, whole = done.get("batch"), "text" * 25
        assert len(text) == 100
        differs = [i for i in range(100) if text[i] != whole[i]]
        assert hit["offset"] <= differs[0] <= differs[-1] < hit["offset"] + hit["bytes"] == hit["offset"] + 20
        hit, done, _ = await hit_of(stage, target, TruncatedBatch(members=EVERYONE, keep=0.25))
        assert (done.get("batch"), hit["before"], hit["after"]) == (whole[:25], 100, 25)
        hit, done, _ = await hit_of(stage, target, SlowLoader(members=EVERYONE, seconds=0.1))
        assert done.get("took") >= hit["seconds"] >= 0.1
        assert (await one_round(stage)).get("took") < 0.1


async def test_a_site_that_is_not_offered_is_no_fault(stage: Recorder, launch: Callable[..., Launch]) -> None:
    async with running(stage, launch) as target:
        with pytest.raises(NotLanded, match="no site gradient; those it offers: values, batch"):
            async with hitting(target, Nan(members=EVERYONE)):
                pass


async def test_what_a_site_cannot_carry_is_refused_and_the_member_goes_on(
    stage: Recorder, launch: Callable[..., Launch]
) -> None:
    async with running(stage, launch) as target:
        fault = Nan(members=EVERYONE, site="batch", where={"step": "never"}, within=0.2)
        with pytest.raises(NotLanded, match="nothing was hit"):
            async with hitting(target, fault):
                pass
        odd = await target.arm(target.members()[0], "values", {"do": "dance"})
        with pytest.raises(NotLanded, match="nobody knows how to dance"):
            await target.wait_hit(odd, 5.0)
        await target.disarm(odd)
        assert (await one_round(stage)).get("values") == CLEAN


async def test_a_device_that_is_broken_stays_so_for_the_next_process_on_it(
    stage: Recorder, launch: Callable[..., Launch]
) -> None:
    source = MEMBER.replace(
        "    inside.hello", "    import os\n    while os.fork():\n        os.wait()\n    inside.hello", 1
    )
    async with running(stage, launch, source) as target:
        (member,) = [m for m in target.members() if m.name == "a" and m.role == "program"][-1:]
        number = await target.arm(member, "values", {"do": "stick", "bit": 22, "value": 1})
        await target.wait_hit(number, 5.0)
        await target.signal(member, 9)
        again = await stage.until("it.runs", times=2)
        first = await stage.until("round.done", times=1 + len([e for e in stage.events if e.kind == "round.done"]))
        assert first.seq > again.seq
        assert first.get("values").count(0.75) == 1
        await target.disarm(number)
        assert (await one_round(stage)).get("values") == CLEAN


async def test_a_member_cannot_say_that_it_was_hit(stage: Recorder, launch: Callable[..., Launch]) -> None:
    liar = 'from chaos import inside\ninside.hello("a", role="program")\ninside.emit("hook.hit", site="values")\n'
    async with Process().open(launch({"a": liar}, lab=False), stage):
        malformed = await stage.until("target.malformed")
    assert "only the harness says hook.hit" in malformed.get("reason")
    assert not [e for e in stage.events if e.kind == "hook.hit"]


def test_a_harness_that_has_gone_leaves_no_fault(tmp_path: Path) -> None:
    program = """
        import sys
        from chaos import inside
        inside.sites("values")
        values = bytearray(4)
        inside.tamper("values", values)
        print(bytes(values).hex(), flush=True)
        while "values" in inside._hooks:
            pass
        inside.tamper("values", values := bytearray(4))
        print(bytes(values).hex())
    """
    path = tmp_path / "events"
    standing = {"op": "arm", "id": 1, "site": "values", "change": {"do": "set", "word": 1}}
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        with subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(program)],
            env={**os.environ, "CHAOS_EVENTS": str(path)}, stdout=subprocess.PIPE, text=True,
        ) as member:  # fmt: skip
            connection, _ = server.accept()
            with connection:
                connection.sendall(json.dumps({"standing": [standing]}).encode() + b"\n")
                assert member.stdout is not None
                assert member.stdout.readline() == "01000000\n"
            assert member.stdout.readline() == "00000000\n"
