"""What a run leaves, and what it finds, below `--out`."""

from __future__ import annotations

import pytest

from .harness import NO_LAB, Chaos, folders, step, write

pytestmark = pytest.mark.slow
FREEZE = step("process.freeze", members={"names": ["worker"]}, hold="50ms")


def test_something_in_the_place_of_latest_costs_no_verdict(chaos: Chaos) -> None:
    (chaos.out / "latest").mkdir(parents=True)
    file = write(chaos.place / "tiny.yaml", [FREEZE], settings={"steps": 60})
    answer = chaos.ask("run", "-q", file, "--out", chaos.out, NO_LAB)
    assert answer.returncode == 0, answer.stderr
    assert len(folders(chaos.out)) == 2
    assert not [path for path in chaos.out.iterdir() if path.is_symlink()]


def test_latest_is_the_run_that_was_killed_and_not_the_green_one_before(chaos: Chaos) -> None:
    file = write(chaos.place / "tiny.yaml", [FREEZE], settings={"steps": 60})
    chaos.ask("run", "-q", file, "--out", chaos.place / "runs", NO_LAB)
    (green,) = folders(chaos.out)
    with chaos.running([FREEZE], NO_LAB, settings={"steps": 60}) as run:
        assert run.process.stdout is not None
        run.process.stdout.readline()
        run.process.stdout.readline()
        run.process.kill()
    latest = (chaos.out / "latest").resolve()
    assert latest != green
    assert not (latest / "junit.xml").exists()


def test_a_run_that_may_not_begin_leaves_no_folder(chaos: Chaos) -> None:
    with chaos.running([FREEZE], NO_LAB, settings={"steps": 60}) as one:
        one.until("target.ready")
        second = chaos.ask("run", chaos.place / "tiny.yaml", "--out", chaos.place / "second", NO_LAB)
        assert second.returncode == 3
        assert not (chaos.place / "second").exists()
        assert one.wait() == 0, one.said
