"""Experiments as tests of somebody's own suite: a real pytest in a folder of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from verdicts.harness import TESTS, publish_mischief, step, write

from chaos.archive import NAME, Archive

KILL = step("process.kill", at="0.1s", members={"roles": ["leader"]})
GREEN: dict[str, Any] = {"title": "A worker dies", "tags": ["kill", "fast"]}


def suite(place: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """pytest, as somebody else has it: with this plugin and no other."""
    command = [sys.executable, "-m", "pytest", "-p", "chaos.pytest_plugin", "-p", "no:cacheprovider", "-ra", *words]
    path = os.pathsep.join([str(TESTS.parent)])
    return subprocess.run(
        command, cwd=place, capture_output=True, text=True, check=False, timeout=50,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": path, **env},
    )  # fmt: skip


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --chaos-no-lab --strict-markers\n")
    return tmp_path


def passing(path: Path) -> Path:
    """One whose fault lands, and whose job gets done."""
    return write(path, [step("process.freeze", at="0.1s", members={"roles": ["worker"]}, hold="50ms")], **GREEN)


def failing(path: Path) -> Path:
    """One that kills the job."""
    return write(path, [KILL], title="A leader dies")


def inconclusive(path: Path) -> Path:
    """One whose fault comes after the end."""
    return write(path, [step("process.kill", at="60s", members={"roles": ["worker"]})], title="Too late")


@pytest.mark.slow
def test_experiments_are_tests_and_only_a_pass_is_one(place: Path) -> None:
    for name, make in (("green", passing), ("red", failing), ("grey", inconclusive)):
        (place / name).mkdir()
        make(place / name / f"{name}.yaml")
    (place / "other.yaml").write_text("target: x\n")  # no method: somebody else's file
    done = suite(place, "--chaos", "--junit-xml", "junit.xml")
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout + done.stderr
    assert "1 passed" in done.stdout
    assert "2 failed" in done.stdout
    assert "fail: " in done.stdout
    assert "unknown: " in done.stdout
    assert "Traceback" not in done.stdout
    assert str(place / "runs") in (place / "junit.xml").read_text()
    with Archive(place / "runs" / NAME) as archive:  # they count for the gate like any other run
        assert sorted((e.experiment, int(e.exit)) for e in archive.runs()) == [("green", 0), ("grey", 3), ("red", 1)]


@pytest.mark.slow
def test_without_the_option_nothing_is_collected_and_nothing_imported(place: Path) -> None:
    passing(place / "green.yaml")
    (place / "test_plain.py").write_text(
        "import sys\ndef test(): assert not {'chaos.load', 'msgspec', 'anyio', 'yaml', 'rich'} & set(sys.modules)\n"
    )
    done = suite(place)
    assert "1 passed" in done.stdout, done.stdout
    assert not (place / "runs").exists()


@pytest.mark.slow
def test_tags_choose(place: Path) -> None:
    passing(place / "green.yaml")
    assert "1 test collected" in suite(place, "--chaos", "--co", "-k", "fast").stdout
    assert suite(place, "--chaos", "--co", "-k", "network").returncode == pytest.ExitCode.NO_TESTS_COLLECTED


@pytest.mark.slow
def test_a_mistake_in_an_experiment_is_an_error_with_its_place(place: Path) -> None:
    file = passing(place / "green.yaml")
    file.write_text(file.read_text().replace('"title"', '"titel"'))
    done = suite(place, "--chaos")
    assert done.returncode == pytest.ExitCode.INTERRUPTED, done.stdout
    assert f"{file}:" in done.stdout
    assert "title" in done.stdout


@pytest.mark.slow
def test_somebody_elses_yaml_may_have_any_keys(place: Path) -> None:
    passing(place / "green.yaml")
    (place / "other.yaml").write_text("? [target, method]\n: x\n")
    assert "1 test collected" in suite(place, "--chaos", "--co").stdout


@pytest.mark.slow
def test_a_file_that_is_named_is_taken_for_an_experiment(place: Path) -> None:
    (place / "typo.yaml").write_text("target: target.yaml\nmethud: []\n")
    done = suite(place, "--chaos", "typo.yaml")
    assert done.returncode == pytest.ExitCode.INTERRUPTED, done.stdout
    assert "typo.yaml:2:1" in done.stdout


FIXTURE = """
    import pytest
    from chaos.pytest_plugin import ExperimentFailed

    def test_history(chaos_run):
        ran = chaos_run("green.yaml", steps=12)
        assert ran.result.exit == 0
        assert len(ran.history.of("step.completed", rank=0)) == 12
        assert ran.history.of("fault.landed")[0].get("kind") == "process.freeze"
        assert (ran.folder / "report.html").exists()

    def test_a_failed_run_is_handed_back(chaos_run):
        assert chaos_run("sub/red.yaml").result.exit == 1

    def test_an_inconclusive_one_is_not(chaos_run):
        with pytest.raises(ExperimentFailed) as told:
            chaos_run("grey/grey.yaml")
        assert told.value.ran.result.exit == 3
        assert chaos_run("grey/grey.yaml", inconclusive=True).result.exit == 3
"""


@pytest.mark.slow
def test_a_suite_asserts_on_the_history_of_a_run(place: Path) -> None:
    (place / "sub").mkdir()
    (place / "grey").mkdir()
    passing(place / "green.yaml")
    failing(place / "sub" / "red.yaml")
    inconclusive(place / "grey" / "grey.yaml")
    (place / "test_mine.py").write_text(dedent(FIXTURE))
    done = suite(place, "--chaos-out", "elsewhere", "test_mine.py")
    assert "3 passed" in done.stdout, done.stdout
    assert (place / "elsewhere" / NAME).exists()


@pytest.mark.slow
def test_options_reach_the_run(place: Path) -> None:
    passing(place / "green.yaml")
    bad = suite(place, "--chaos", "--chaos-set", "steps")
    assert "expected NAME=VALUE" in bad.stdout + bad.stderr
    crashed = suite(place, "--chaos", "--chaos-set", "trouble=crash", "--chaos-seed", "3")
    assert crashed.returncode == pytest.ExitCode.TESTS_FAILED, crashed.stdout
    with Archive(place / "runs" / NAME) as archive:
        (evidence,) = archive.runs()
    assert (dict(evidence.overrides), evidence.seed) == ({"trouble": "crash"}, 3)


@pytest.mark.slow
def test_after_a_heal_that_failed_nothing_more_is_broken(place: Path) -> None:
    publish_mischief(place / "plugins")
    for name in ("a", "b"):
        (place / name).mkdir()
    write(
        place / "a" / "a.yaml",
        [step("mischief.heal", at="0.1s", hold="50ms", how="fails")],
    )
    passing(place / "b" / "b.yaml")
    path = os.pathsep.join(map(str, (place / "plugins", TESTS, TESTS.parent)))
    done = suite(place, "--chaos", PYTHONPATH=path)
    assert "1 failed" in done.stdout, done.stdout
    assert "passed" not in done.stdout
    assert "open the door by hand" in done.stdout


def test_pytest_finds_the_plugin_once_installed() -> None:
    assert "chaos.pytest_plugin" in [point.value for point in entry_points(group="pytest11")]


LOOPS = """
    import asyncio
    import threading

    def test_loop(chaos_run):
        async def inside():
            chaos_run("green.yaml")
        asyncio.run(inside())

    def test_thread(chaos_run):
        told = []
        def beside():
            try:
                chaos_run("green.yaml")
            except Exception as error:
                told.append(str(error))
        thread = threading.Thread(target=beside)
        thread.start()
        thread.join()
        assert "main thread" in told[0]
"""


@pytest.mark.slow
def test_where_a_run_could_not_heed_a_signal_none_is_begun(place: Path) -> None:
    passing(place / "green.yaml")
    (place / "test_mine.py").write_text(dedent(LOOPS))
    done = suite(place, "test_mine.py")
    assert "1 failed, 1 passed" in done.stdout, done.stdout
    assert "cannot run inside of an event loop" in done.stdout
    assert not (place / "runs").exists()


@pytest.mark.slow
def test_where_nothing_can_be_written_it_is_said_in_a_line(place: Path) -> None:
    passing(place / "green.yaml")
    done = suite(place, "--chaos", "--chaos-out", "pytest.ini")
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert "--out" in done.stdout
    assert "Traceback" not in done.stdout
    assert "pytest_plugin.py" not in done.stdout


@pytest.mark.slow
def test_an_interruption_heals_and_ends_the_suite(place: Path) -> None:
    for name in ("a", "b"):
        (place / name).mkdir()
        hold = step("process.freeze", at="0.1s", members={"roles": ["worker"]}, hold="30s")
        write(place / name / f"{name}.yaml", [hold], title="A long freeze")
    (place / "conftest.py").write_text(dedent(INTERRUPTS))
    done = suite(place, "--chaos")
    assert done.returncode == pytest.ExitCode.INTERRUPTED, done.stdout + done.stderr
    with Archive(place / "runs" / NAME) as archive:
        (evidence,) = archive.runs()
    assert int(evidence.exit) == 130
    (journal,) = (p for p in place.glob("runs/*/journal.jsonl") if not p.parent.is_symlink())
    assert '"fault.healed"' in journal.read_text()


INTERRUPTS = """
    import os, signal, threading
    from pathlib import Path

    def ctrl_c():  # once the fault has landed
        here = Path(__file__).parent
        while not any('"fault.landed"' in p.read_text() for p in here.glob("runs/*/journal.jsonl")):
            threading.Event().wait(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    def pytest_collection_finish():
        threading.Thread(target=ctrl_c, daemon=True).start()
"""
