"""Experiments as real processes: started once whatever dies when, found again, ended within moments."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import anyio
import pytest

from chaos.gameday import begin
from chaos.gameday.children import HELD, MARKER, SAID, Processes, born, lives

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
SLEEPS = (sys.executable, "-S", "-c", "import time; print('here', flush=True); time.sleep(60)")
# A game day that starts an experiment and is killed at a certain moment.
DIES = """
import os, signal, sys
from pathlib import Path
from chaos.gameday.children import Processes
def record(pid, birth):
    print(pid, birth, flush=True)
    if sys.argv[2] == "before go": os.kill(os.getpid(), signal.SIGKILL)
Processes().start(Path(sys.argv[1]), sys.argv[3:], record)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def anyio_backend() -> str:
    """Real time: these are real processes."""
    return "asyncio"


def game_day_dies(folder: Path, when: str) -> tuple[int, str]:
    """The child that it had on record when it died."""
    done = subprocess.run(
        [sys.executable, "-c", DIES, folder, when, *SLEEPS], capture_output=True, text=True, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    pid, birth = done.stdout.split()
    return int(pid), birth


async def test_a_child_runs_and_its_exit_code_and_words_are_known(tmp_path: Path) -> None:
    seen: list[tuple[int, str]] = []
    command = (sys.executable, "-S", "-c", "print('said'); raise SystemExit(3)")
    child = Processes().start(tmp_path / "01", command, lambda pid, birth: seen.append((pid, birth)))
    assert seen == [(child.pid, born(child.pid))]
    assert await child.wait() == 3
    assert (tmp_path / "01" / SAID).read_text() == "said\n"
    assert Processes().began(tmp_path / "01")
    assert await Processes().find(tmp_path / "01", *seen[0]) is None


async def test_it_is_on_record_before_it_does_anything(tmp_path: Path) -> None:
    def record(pid: int, birth: str) -> None:
        assert not (tmp_path / "01" / MARKER).exists()
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        Processes().start(tmp_path / "01", SLEEPS, record)
    assert await Processes().find(tmp_path / "01", None, "") is None
    assert not Processes().began(tmp_path / "01")


async def test_killed_before_the_word_to_go_nothing_has_run_and_nothing_will(tmp_path: Path) -> None:
    pid, birth = game_day_dies(tmp_path / "01", "before go")
    assert await found_end(tmp_path / "01", pid, birth)
    assert not Processes().began(tmp_path / "01")
    child = Processes().start(tmp_path / "01", (sys.executable, "-S", "-c", "pass"), lambda pid, birth: None)
    assert await child.wait() == 0
    assert Processes().began(tmp_path / "01")


async def found_end(folder: Path, pid: int, birth: str) -> bool:
    """Whether it is gone at the end, found on its way out or not at all."""
    child = await Processes().find(folder, pid, birth)
    with anyio.fail_after(10):
        return child is None or await child.wait() is None


def wait_for(path: Path) -> None:
    """Nobody tells when another process makes a file."""
    deadline = time.monotonic() + 10
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.01)


async def test_killed_after_it_the_child_goes_on_and_is_found(tmp_path: Path) -> None:
    pid, birth = game_day_dies(tmp_path / "01", "after go")
    wait_for(tmp_path / "01" / MARKER)
    child = await Processes().find(tmp_path / "01", pid, birth)
    assert child is not None
    assert not child.ours
    began = time.monotonic()
    child.terminate()
    assert await child.wait() is None
    assert time.monotonic() - began < 5
    assert Processes().began(tmp_path / "01")
    assert await Processes().find(tmp_path / "01", pid, birth) is None


async def test_another_process_with_the_same_number_is_not_taken_for_it(tmp_path: Path) -> None:
    (tmp_path / "01").mkdir()
    assert await Processes().find(tmp_path / "01", os.getpid(), "another boot:1") is None
    assert lives(os.getpid(), born(os.getpid()))
    assert not lives(os.getpid(), "another boot:1")


def test_a_folder_is_begun_in_once(tmp_path: Path) -> None:
    (tmp_path / MARKER).touch()
    reads, writes = os.pipe()
    os.write(writes, begin.GO)
    command = [sys.executable, "-I", "-S", begin.__file__, str(reads), str(tmp_path / MARKER), "/bin/echo", "twice"]
    done = subprocess.run(command, pass_fds=[reads], capture_output=True, text=True, check=False)
    os.close(reads)
    os.close(writes)
    assert done.returncode != 0
    assert "twice" not in done.stdout
    assert "FileExistsError" in done.stderr


async def test_two_at_a_time_in_one_folder_are_refused(tmp_path: Path) -> None:
    child = Processes().start(tmp_path / "01", SLEEPS, lambda pid, birth: None)
    with pytest.raises(BlockingIOError):
        Processes().start(tmp_path / "01", SLEEPS, lambda pid, birth: None)
    assert (tmp_path / "01" / HELD).exists()
    child.terminate()
    assert await child.wait() == 128 + signal.SIGTERM
