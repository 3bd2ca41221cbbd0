"""Who is said to have ended for lack of memory."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from targets.trainer.agent.autopsy import OUT_OF_MEMORY, Autopsy
from targets.trainer.coordinator.failure import exit_class


@pytest.fixture(params=["first", "second"])
def counter(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The file in which the kernel would count, in a group beside the agent's own; by version of control groups."""
    own = tmp_path / "cgroup"
    if request.param == "first":
        own.write_text("4:cpu:/\n3:memory:/job/agent\n")
        file = tmp_path / "memory/job/worker/memory.oom_control"
    else:
        own.write_text("0::/job/agent\n")
        file = tmp_path / "job/worker/memory.events.local"
    file.parent.mkdir(parents=True)
    file.write_text("under_oom 0\noom_kill 3\n")
    return file


@pytest.fixture
def autopsy(counter: Path, tmp_path: Path) -> Autopsy:
    return Autopsy(tmp_path, tmp_path / "cgroup")


def test_a_kill_that_the_kernel_counted_is_for_lack_of_memory(autopsy: Autopsy, counter: Path) -> None:
    counter.write_text("under_oom 0\noom_kill 4\n")
    assert autopsy.cause(-signal.SIGKILL) == "out-of-memory"
    assert autopsy.cause(-signal.SIGKILL) is None  # the next one is somebody else's


@pytest.mark.parametrize("code", [-signal.SIGKILL, -signal.SIGSEGV, 1, 0])
def test_any_other_end_is_not(autopsy: Autopsy, code: int) -> None:
    assert autopsy.cause(code) is None
    assert exit_class(code, None) == "fail-stop"


def test_nor_is_another_signal_while_somebody_else_was_killed(autopsy: Autopsy, counter: Path) -> None:
    counter.write_text("oom_kill 4\n")
    assert autopsy.cause(-signal.SIGSEGV) is None


def test_a_worker_whose_allocation_failed_says_so(autopsy: Autopsy) -> None:
    assert autopsy.cause(OUT_OF_MEMORY) == "out-of-memory"


def test_a_node_without_control_groups_has_only_the_exit_code(tmp_path: Path) -> None:
    assert Autopsy(tmp_path, tmp_path / "missing").cause(-signal.SIGKILL) is None
