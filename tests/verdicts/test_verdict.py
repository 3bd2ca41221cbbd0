"""The table "Verdict": what a run may be called."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .harness import NO_LAB, Chaos, folders, step, write

pytestmark = pytest.mark.slow

STEADY = "steady-state-hypothesis"
EVERYONE = {"names": ["leader", "worker"]}
FREEZE = step("process.freeze", members={"names": ["worker"]}, hold="100ms")


def alive(at_least: int) -> dict[str, Any]:
    return {"probe": "process.alive", "at-least": at_least, "every": "50ms"}


def test_a_run_without_trouble_is_green(chaos: Chaos) -> None:
    code, run = chaos.run([FREEZE], NO_LAB, steady_state_hypothesis=[alive(1)], settings={"steps": 60})
    assert code == 0, run.said
    assert "VERDICT PASS" in run.said
    assert set(run.checks.values()) == {"pass"}


@pytest.mark.parametrize(
    ("hypothesis", "why"),
    [
        (alive(3), "last value 2"),
        ({"probe": "mischief.sample", "gives": "raises", "at-least": 1}, "ConnectionError: nobody answers"),
        ({"probe": "mischief.sample", "gives": "true", "equals": 1}, "not a finite number: True"),
    ],
    ids=["false", "raises", "true is not 1"],
)
def test_a_steady_state_that_is_not_met_before_injects_nothing(
    chaos: Chaos, hypothesis: dict[str, Any], why: str
) -> None:
    limits, settings = {"baseline": "600ms"}, {"steps": 1000}
    code, run = chaos.run([FREEZE], NO_LAB, steady_state_hypothesis=[hypothesis], limits=limits, settings=settings)
    assert code == 3, run.said
    assert why in run.said
    assert not run.history.of("fault.armed", "fault.injecting", "fault.landed")


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("refuses", "NotLanded: it did not take"),
        ("crashes", "ZeroDivisionError: a bug in the injector"),
        ("process-exits-2", "returned non-zero exit status 2"),
        ("proves-nothing", "gave no proof that it landed"),
    ],
)
def test_a_fault_that_did_not_land_is_inconclusive(chaos: Chaos, how: str, why: str) -> None:
    code, run = chaos.run([step("mischief.inject", how=how, hold="100ms")], NO_LAB)
    assert code == 3, run.said
    assert run.checks["mischief.inject"] == "unknown"
    assert why in run.said


def test_a_fault_on_somebody_who_has_gone_is_inconclusive(chaos: Chaos) -> None:
    late = {**FREEZE, "when": {"event": "member.exited"}}
    method = [step("process.kill", members={"names": ["worker"]}), late]
    code, run = chaos.run(method, NO_LAB, settings={"steps": 60})
    assert code == 3, run.said
    assert run.checks["process.kill"] == "pass"
    assert run.checks["process.freeze"] == "unknown"
    assert "no member selected" in run.said


def test_a_selection_that_is_empty_from_the_start_is_refused_before_the_run(chaos: Chaos) -> None:
    code, run = chaos.run([{**FREEZE, "members": {"ranks": [9]}}])
    assert code == 2, run.said
    assert not folders(run.out)


@pytest.mark.parametrize(("mode", "code"), [("continuous", 1), ("edge", 0)])
def test_a_deviation_that_passes_fails_unless_only_before_and_after_are_asked_for(
    chaos: Chaos, mode: str, code: int
) -> None:
    flow = {"probe": "training.throughput", "at-least": 1, "window": "300ms", "every": "50ms", "mode": mode}
    freeze = {**FREEZE, "members": EVERYONE, "hold": "1500ms"}
    found, run = chaos.run([freeze], NO_LAB, steady_state_hypothesis=[flow], settings={"steps": 120})
    assert found == code, run.said
    assert run.checks["training.throughput"] == ("fail" if code else "pass")
    assert "wall" not in run.said


@pytest.mark.parametrize(
    ("how", "why", "undo"),
    [
        ("fails", "the door is jammed", "open the door by hand"),
        ("crashes", "ZeroDivisionError", "undo mischief.heal on worker (pid "),
    ],
)
def test_a_heal_that_fails_has_an_exit_code_of_its_own_and_says_what_to_undo(
    chaos: Chaos, how: str, why: str, undo: str
) -> None:
    code, run = chaos.run([step("mischief.heal", how=how, hold="50ms"), step("mischief.long", "9s", takes="0s")])
    assert code == 4, run.said
    assert why in run.said
    assert f"Undo by hand: {undo}" in run.said
    assert not run.history.of("fault.injecting", "fault.landed")[2:]  # nothing is broken any more


@pytest.mark.parametrize(
    ("wrong", "mistake", "told"),
    [
        ({"steady_state_hypothesis": []}, "steady_state_hypothesis", "did you mean `steady-state-hypothesis`?"),
        ({"rollback": []}, "rollback", "unknown key `rollback` in the experiment"),
        ({"method": [{**FREEZE, "pause": "1s"}]}, "pause", "unknown key `pause` in `process.freeze`"),
        ({STEADY: [{**alive(1), "tolerance": 1}]}, "tolerance", "unknown key `tolerance`"),
        ({STEADY: [{"probe": "process.alive"}]}, "{", "no bound"),
    ],
    ids=["steady_state_hypothesis", "rollback", "pause", "tolerance", "no bound"],
)
def test_a_key_or_a_bound_that_would_do_nothing_is_refused_at_its_place(
    chaos: Chaos, wrong: dict[str, Any], mistake: str, told: str
) -> None:
    path = write(chaos.place / "wrong.yaml", [FREEZE])
    path.write_text(json.dumps({**json.loads(path.read_text()), **wrong}, indent=1))
    answer = chaos.ask("run", path)
    assert answer.returncode == 2
    (line,) = answer.stderr.splitlines()
    place, _, reason = line.partition(": ")
    file, number, column = place.split(":")
    assert Path(file) == path
    assert path.read_text().splitlines()[int(number) - 1][int(column) - 1 :].lstrip('"').startswith(mistake)
    assert told in reason
    assert not folders(chaos.out)


def test_a_plan_is_no_run_and_leaves_nothing_that_could_be_taken_for_one(chaos: Chaos) -> None:
    before = set(chaos.place.iterdir())
    path = write(chaos.place / "tiny.yaml", [FREEZE])
    answer = chaos.ask("run", path, "--plan", "--out", chaos.out)
    assert answer.returncode == 0
    assert "nothing is run, nothing is proved" in answer.stdout
    assert "VERDICT" not in answer.stdout
    assert {p.name for p in set(chaos.place.iterdir()) - before} == {"tiny.yaml", "target.yaml"}
    assert chaos.ask("judge", chaos.out).returncode == 2


def test_what_is_no_measurement_is_never_met(chaos: Chaos) -> None:
    gives = ("nothing", "nan", "too-late", "raises", "true")
    steady = [
        {"name": how, "probe": "mischief.sample", "gives": how, "then": True, "equals": 1} for how in (*gives, "one")
    ]
    code, run = chaos.run([FREEZE], NO_LAB, steady_state_hypothesis=steady, settings={"steps": 60})
    assert code == 3, run.said
    assert {how: run.checks[how] for how in gives} == dict.fromkeys(gives, "unknown")
    assert run.checks["one"] == "pass"


def test_a_run_that_asks_nothing_is_inconclusive(chaos: Chaos) -> None:
    code, run = chaos.run([], NO_LAB, settings={"steps": 5})
    assert code == 3, run.said
    assert "nothing was asked" in run.said


@pytest.mark.parametrize(
    ("trouble", "code", "why"),
    [
        ("never-ready", 3, "limits.ready of 0.7s reached"),
        ("dies-at-start", 3, "no room for another model"),
        ("crash", 1, "exit code 3 (leader)"),
        ("hang", 1, "hang of survivors"),
    ],
)
def test_a_target_that_does_not_start_proves_nothing_and_one_that_does_not_end_well_fails(
    chaos: Chaos, trouble: str, code: int, why: str
) -> None:
    limits = {"ready": "700ms" if trouble == "never-ready" else "30s", "stall": "500ms"}
    settings = {"trouble": trouble, "steps": 10}
    found, run = chaos.run([], NO_LAB, steady_state_hypothesis=[alive(1)], limits=limits, settings=settings)
    assert found == code, run.said
    assert why in run.said


def test_two_runs_into_one_folder_have_a_folder_each(chaos: Chaos) -> None:
    with chaos.running([FREEZE]) as one, chaos.running([FREEZE]) as other:
        assert (one.wait(), other.wait()) == (0, 0), one.said + other.said
    first, second = folders(chaos.out)
    for folder in (first, second):
        assert {"journal.jsonl", "verdict.json", "junit.xml"} <= {path.name for path in folder.iterdir()}
    assert (chaos.out / "latest").resolve() in (first, second)


def test_a_target_without_a_lab_serves_one_run_at_a_time(chaos: Chaos) -> None:
    with chaos.running([FREEZE], NO_LAB, settings={"steps": 100_000}) as one:
        one.until("target.ready")
        second = chaos.ask("run", chaos.place / "tiny.yaml", "--out", chaos.place / "second", NO_LAB)
        assert second.returncode == 3
        assert "another run without a lab uses this target" in second.stderr
        one.process.terminate()
        assert one.wait() == 143, one.said  # the first goes on as if nothing had been


@pytest.mark.parametrize("lines", [0, 3])
def test_a_verdict_that_nobody_reads_is_the_same(chaos: Chaos, lines: int) -> None:
    with chaos.running([step("mischief.inject", how="refuses")], NO_LAB) as run:
        assert run.process.stdout is not None
        for _ in range(lines):
            run.process.stdout.readline()
        run.process.stdout.close()
        assert run.process.wait() == 3
    assert run.history[-1].get("reason") == "finished"
    assert run.checks["mischief.inject"] == "unknown"


def test_of_several_runs_the_worst_decides(chaos: Chaos) -> None:
    good = write(chaos.place / "good.yaml", [FREEZE], settings={"steps": 20})
    vain = write(chaos.place / "vain.yaml", [], settings={"steps": 1})
    answer = chaos.ask("run", "-q", good, vain, good, "--out", chaos.out, NO_LAB)
    assert answer.returncode == 3
    assert answer.stdout.count("VERDICT PASS") == 2
    assert answer.stdout.count("VERDICT UNKNOWN") == 1
