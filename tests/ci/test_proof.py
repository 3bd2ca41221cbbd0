"""The proof table is whole: every experiment, every defect, and only checks that the experiment asks for."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest
import yaml

from chaos.load import load_experiment
from ci.proof import Cell, Outcome, build, cells, judge, missing, remembered, table
from targets.serving import defects as serving
from targets.trainer import defects as trainer

ROOT = Path(__file__).parents[2]
EXPERIMENTS = {
    str(p.relative_to(ROOT / "experiments").with_suffix("")): p for p in (ROOT / "experiments").rglob("*.yaml")
}
TABLE = tuple(cells())


def verdict(**outcomes: str) -> dict[str, object]:
    return {"checks": [{"name": n.replace("_", "-"), "verdict": {"outcome": o}} for n, o in outcomes.items()]}


def test_every_experiment_is_in_the_table() -> None:
    assert {c.experiment for c in TABLE} == set(EXPERIMENTS)


def test_every_experiment_turns_red_somewhere_and_green_somewhere() -> None:
    assert set(EXPERIMENTS) == {c.experiment for c in TABLE if c.expected}
    assert set(EXPERIMENTS) == {c.experiment for c in TABLE if not c.expected}


def caught(folder: str) -> set[str]:
    """The defects in the rows of the experiments in one folder."""
    rows = (c for c in TABLE if str(Path(c.experiment).parent) == folder)
    return {c.defect for c in rows if c.defect and "=" not in c.defect}


def test_every_defect_of_the_trainer_is_caught_by_an_experiment() -> None:
    assert caught(".") == set(trainer.DEFECTS)


def test_every_defect_of_the_serving_stack_is_caught_by_an_experiment() -> None:
    assert caught("serving") == set(serving.DEFECTS)


@pytest.mark.parametrize(("target", "defects"), [("trainer", trainer.DEFECTS), ("serving", serving.DEFECTS)])
def test_the_target_file_offers_the_defects_that_the_target_has(target: str, defects: dict[str, str]) -> None:
    file = yaml.safe_load((ROOT / "targets" / target / "target.yaml").read_text())
    assert set(file["choices"]["defect"]) == {"none", *defects}


@pytest.mark.parametrize("cell", [c for c in TABLE if c.expected], ids=lambda c: f"{c.experiment}/{c.defect}")
def test_the_check_that_must_turn_red_is_asked_by_the_experiment(cell: Cell) -> None:
    experiment = load_experiment(EXPERIMENTS[cell.experiment])
    # What a service gives up is a promise of its steady state, as are its latency and its errors; work that is done
    # again without need breaks nothing but its budget.
    budget = msgspec.to_builtins(experiment.budget)
    bounds = {f"{part}.{term}" for part, terms in budget.items() for term, most in (terms or {}).items() if most}
    assert cell.expected in {k for k, _ in experiment.invariants} | {h.name for h in experiment.steady} | bounds


def test_every_invariant_of_an_experiment_is_turned_red_by_some_defect() -> None:
    asked = {k for path in EXPERIMENTS.values() for k, _ in load_experiment(path).invariants}
    assert asked <= {c.expected for c in TABLE if c.expected}


def test_a_cell_is_right_only_when_the_named_check_fails() -> None:
    cell = Cell("kill_worker", "rng-not-restored", "state-complete")
    assert judge(cell, 1, verdict(state_complete="fail"))[0]
    assert not judge(cell, 1, verdict(state_complete="pass", progress="fail"))[0]
    assert not judge(cell, 3, verdict(state_complete="unknown"))[0]
    assert not judge(cell, 0, verdict(state_complete="pass"))[0]


def test_a_correct_target_must_pass_and_not_just_be_inconclusive() -> None:
    cell = Cell("control", None, None)
    assert judge(cell, 0, verdict(progress="pass"))[0]
    assert not judge(cell, 3, verdict(progress="unknown"))[0]
    assert not judge(cell, 3, None)[0]


def test_a_table_names_defects_other_settings_and_what_is_red_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "table").write_text("a: {bug: one-generation}\nb: {as-is: no-orphan, library=guarded: pass}\nc:\n")
    a, a_bug, b, b_guarded, c = cells(tmp_path / "table")
    assert (a, a_bug) == (Cell("a", None, None), Cell("a", "bug", "one-generation"))
    assert (b, b_guarded, c) == (
        Cell("b", None, "no-orphan"),
        Cell("b", "library=guarded", None),
        Cell("c", None, None),
    )
    assert [x.settings for x in (a, a_bug, b_guarded)] == [[], ["--set", "defect=bug"], ["--set", "library=guarded"]]


def outcome(cell: str, good: bool, seconds: float = 10.0) -> Outcome:
    return Outcome(cell, good, "pass", seconds, "runs/x")


def test_the_table_counts_the_runs_of_each_cell() -> None:
    seen = [
        outcome("kill_worker/correct", True, 10.0), outcome("kill_worker/correct", True, 30.0),
        outcome("kill_worker/optimizer-empty", True, 12.0), outcome("kill_worker/optimizer-empty", False, 14.0),
        outcome("control/short-timeout", True, 20.0),
    ]  # fmt: skip
    assert table(seen).splitlines()[2:] == [
        "| kill_worker | 2/2 | `optimizer-empty` → state-complete 1/2 | 13 s |",
        "| control | – | `short-timeout` → bounded-detection 1/1 | 20 s |",
    ]


def test_earlier_runs_of_this_build_are_remembered(tmp_path: Path) -> None:
    builds = {"control/correct": "b1"}
    assert remembered(None, builds) == remembered(tmp_path / "none", builds) == []
    lines = [
        '["control/correct", true, "pass", 3.5, "runs/x", "b1"]',
        '["control/correct", true, "pass", 3.5, "runs/x"]',
    ]
    (tmp_path / "seen").write_text("\n".join(lines) + "\n")
    assert remembered(tmp_path / "seen", builds) == [Outcome("control/correct", True, "pass", 3.5, "runs/x", "b1")]
    assert remembered(tmp_path / "seen", {"control/correct": "b2"}) == remembered(tmp_path / "seen", {}) == []


def test_a_build_is_the_harness_the_target_and_the_experiment() -> None:
    control, defect, kill = Cell("control", None, None), Cell("control", "bug", "x"), Cell("kill_worker", None, None)
    serving = Cell("serving/control", None, None)
    assert build(control) == build(defect) != build(kill)
    assert build(control)[:8] == build(kill)[:8] != build(serving)[:8]


def test_only_what_is_missing_to_so_many_runs_is_run() -> None:
    first, second = Cell("control", None, None), Cell("kill_worker", None, None)
    assert [*missing([first, second], [], 2)] == [first, second, first, second]
    assert [*missing([first, second], [outcome("control/correct", False)], 2)] == [second, first, second]
    assert [*missing([first], [outcome("control/correct", True)] * 3, 2)] == []
    assert [*missing([first], [], 0)] == []


STOPPED = """
import signal, sys
from ci import proof

signal.signal(signal.SIGINT, signal.default_int_handler)
child = "import os, sys, time; open(f'{sys.argv[1]}/pid', 'w').write(str(os.getpid())); time.sleep(float(sys.argv[2]))"

def command(cell, out):
    return [sys.executable, "-c", child, str(out), "0" if cell.defect is None else "60"]

proof.command = command
sys.exit(proof.main())
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_what_runs_starts_nothing_more_and_shows_what_was_seen(
    tmp_path: Path, number: signal.Signals
) -> None:
    cells = ["--only", "kill_worker/correct", "--only", "kill_worker/optimizer-empty"]
    words = ["-n", "2", *cells, "--out", str(tmp_path)]
    with subprocess.Popen(
        [sys.executable, "-c", STOPPED, *words], cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as proof:
        deadline = time.monotonic() + 30
        while len(pids := [p.read_text() for p in sorted(tmp_path.glob("*/pid"))]) < 2 or not all(pids):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        proof.send_signal(number)
        said, _ = proof.communicate(timeout=30)
    assert proof.returncode == 130
    assert "| kill_worker | 1/1 | – | 0 s |" in said
    assert "1 cell, 1 run in" in said
    assert len(list(tmp_path.iterdir())) == 2, "the other two never began"
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid), 0)
