"""Own work is told from that of others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from chaos.drivers.process import neighbours
from chaos.drivers.process.neighbours import Spent, read

BURN = "import time, sys\nend = time.process_time() + 0.5\nwhile time.process_time() < end: pass\nprint(flush=True)\n"


def process(proc: Path, pid: int, ticks: tuple[int, int, int, int], children: str = "", name: str = "python") -> None:
    task = proc / str(pid) / "task" / str(pid)
    task.mkdir(parents=True)
    (task / "children").write_text(children)
    before = " ".join(["0"] * 10)
    (proc / str(pid) / "stat").write_text(f"{pid} ({name}) S {before} {' '.join(map(str, ticks))} 0 0\n")


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    (tmp_path / "stat").write_text("cpu  100 1 50 800 9 2 3 35 7 7\ncpu0 1 1 1 1 1 1 1 1\n")
    return tmp_path


def test_the_whole_tree_is_our_own_with_children_that_were_waited_for(proc: Path) -> None:
    process(proc, 1, (10, 5, 2, 1), "2 3")
    process(proc, 2, (7, 0, 0, 0), "4")
    process(proc, 3, (1, 1, 0, 0), name="a ) b 1 2 3")
    process(proc, 4, (0, 3, 0, 0))
    process(proc, 9, (500, 500, 0, 0))  # somebody else's
    assert read(proc, 1) == Spent(all=1000, busy=191, own=30)


def test_one_that_has_gone_meanwhile_is_left_out(proc: Path) -> None:
    process(proc, 1, (10, 0, 0, 0), "2")
    assert read(proc, 1).own == 10


def test_what_a_process_of_ours_burns_is_ours_and_what_others_burn_is_not() -> None:
    with subprocess.Popen([sys.executable, "-c", BURN + "input()"], stdin=-1, stdout=-1) as child:
        before = read().own
        assert child.stdout is not None
        child.stdout.readline()
        assert read().own - before < 1000  # alive: counted as it goes
        assert read(root=child.pid).own >= 45
        child.communicate(b"\n")
    after = read().own
    assert after >= before  # waited for: still ours
    assert read(root=1).busy >= read().own


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_run_says_how_much_of_the_machine_others_used(monkeypatch: pytest.MonkeyPatch) -> None:
    from anyio import create_task_group

    monkeypatch.setattr(neighbours, "PERIOD", 0.25)
    said: list[dict[str, float]] = []

    class Stage:
        def record(self, source: str, kind: str, data: dict[str, float]) -> None:
            assert (source, kind) == ("harness", "host.sampled")
            said.append(data)
            if len(said) == 3:
                tasks.cancel_scope.cancel()

    async with create_task_group() as tasks:
        tasks.start_soon(neighbours.watch, Stage())  # type: ignore[arg-type]
    assert len(said) == 3
    for shares in said:
        assert set(shares) == {"own", "others"}
        assert all(0 <= share <= 1 for share in shares.values())
        assert sum(shares.values()) <= 1.01
