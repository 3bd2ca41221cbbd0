"""A full disk under the real torch.distributed.checkpoint: is what it says about a save true?"""

from __future__ import annotations

import importlib.util
import json

import pytest

from chaos.faults.storage.full import Full
from chaos.testing import Recorder

from .conftest import Open, Strike, data, said

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed"),
    pytest.mark.timeout(120),
]

# One rank, so many writer threads; then a load of what was saved into zeros.
SAVE = """
import warnings
warnings.filterwarnings("ignore")
import torch
from torch.distributed.checkpoint import FileSystemReader, FileSystemWriter, load, save
state = {f"w{i}": torch.full((64,), float(i)) for i in range(4)}
go()
try:
    save(state, storage_writer=FileSystemWriter(f"{data}/ck", thread_count=THREADS), no_dist=True)
    say("saved")
except BaseException as error:  # CheckpointException is no Exception
    say("save raised", type(error).__name__)
say("metadata" if os.path.exists(f"{data}/ck/.metadata") else "no metadata")
fresh = {name: torch.zeros(64) for name in state}
try:
    load(fresh, storage_reader=FileSystemReader(f"{data}/ck"), no_dist=True)
    say("loaded", all(torch.equal(fresh[name], state[name]) for name in state))
except BaseException as error:  # CheckpointException is no Exception
    say("load raised", type(error).__name__)
go()
"""


async def saved(tapped: Open, strike: Strike, stage: Recorder, threads: int) -> bool:
    """Save with so many threads, while there is no room for `__0_0.distcp`; whether it was the main thread that met
    the full disk."""
    fault = Full(path="ck/__0_0.distcp", ops=("create",), nth=1)
    program = SAVE.replace("THREADS", str(threads))
    async with tapped({"a": program}, fault) as target:
        await stage.until("point.reached", "a", within=60)  # imports torch
        async with strike(fault, target):
            await stage.until("point.reached", "a", times=2, within=30)
        (member,) = target.members()
        record = data(target).parent / "operations.jsonl"
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    (hit,) = [line for line in lines if line["did"] == "ENOSPC"]
    return bool(hit["pid"] == member.pid)


async def test_a_save_by_one_thread_says_that_it_failed(tapped: Open, strike: Strike, stage: Recorder) -> None:
    assert await saved(tapped, strike, stage, threads=1)
    assert said(stage)[:2] == ["save raised CheckpointException", "no metadata"]


async def test_a_writer_thread_that_finds_the_disk_full_is_not_heard(
    tapped: Open, strike: Strike, stage: Recorder
) -> None:
    """pytorch/pytorch#191391, still so in 2.13: reported as saved, with metadata, and it cannot be loaded. Once it is
    mended there, the first line says that the save raised, or there is no metadata."""
    if await saved(tapped, strike, stage, threads=3):
        pytest.skip("it was the main thread that took the first file")
    lines = [line for line in said(stage) if line.startswith(("save", "metadata", "no metadata", "load"))]
    assert lines[:2] == ["saved", "metadata"], "mended: make this a guard"
    assert lines[2].startswith("load raised")
