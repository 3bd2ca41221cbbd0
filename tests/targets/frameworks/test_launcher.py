"""The launcher of the framework jobs: ranks are forked, and all are started again when one dies."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from targets.frameworks.launcher import digest, file_facts

ROOT = Path(__file__).parents[3]
JOB = """
import os
from targets.frameworks.launcher import launch

def work(place):
    os.write(1, f"{{place.epoch}} {{place.rank}} {{place.world}} {{os.environ.get('RANK')}}\\n".encode())
    {body}

launch(work, worlds=(1, 2), restarts={restarts})
"""


def run(body: str, restarts: int = 2) -> tuple[int, list[str]]:
    done = subprocess.run(
        [sys.executable, "-c", JOB.format(body=body, restarts=restarts)],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.returncode, sorted(done.stdout.splitlines())


@pytest.mark.slow
def test_a_job_that_ends_well_is_not_started_again() -> None:
    assert run("pass") == (0, ["1 0 1 None"])


@pytest.mark.slow
def test_all_ranks_come_again_when_one_dies_with_as_many_as_are_asked_for() -> None:
    assert run("os.kill(os.getpid(), 9) if place.epoch == 1 else None") == (
        0,
        ["1 0 1 None", "2 0 2 0", "2 1 2 1"],
    )


@pytest.mark.slow
def test_a_rank_that_waits_for_ever_is_ended_with_the_one_that_died() -> None:
    code, said = run("import signal; signal.pause() if place.rank == 0 and place.epoch > 1 else 1 / 0", restarts=1)
    assert code == 1
    assert said[0] == "1 0 1 None"


@pytest.mark.slow
def test_it_gives_up() -> None:
    code, said = run("1 / 0", restarts=0)
    assert (code, said) == (1, ["1 0 1 None"])


def test_a_digest_does_not_hang_on_the_order_of_keys() -> None:
    assert digest({"a": 1, "b": [2.0, None]}) == digest({"b": [2.0, None], "a": 1})
    assert digest({"a": 1}) != digest({"a": 2})


def test_facts_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"abc")
    assert file_facts(tmp_path / "f") == {
        "bytes": 3,
        "digest": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
    }
