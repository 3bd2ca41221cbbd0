"""A correct experiment becomes typed data."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.api import Selector
from chaos.errors import SpecError
from chaos.experiment import Budget, Limits, Mode, Rpo, Rto
from chaos.load import load_experiment
from chaos.trigger import After, AnyTrigger, At, Condition, Every, OnEvent, OnLog, OnPoint, OnProbe, Poisson

from .conftest import GOOD, TARGET, Load


def test_the_example_of_the_design_is_read_in_full(load: Load) -> None:
    experiment = load(GOOD)
    assert (experiment.name, experiment.title, experiment.seed) == ("sample", "A sample", 7)
    assert experiment.tags == ("a", "b")
    (steady,) = experiment.steady
    assert (steady.name, steady.bound, steady.of_baseline, steady.mode) == (
        "training.throughput", Condition(at_least=0.7), True, Mode.EDGE,
    )  # fmt: skip
    cut, kill = experiment.method
    assert cut.fault.selectors() == (Selector(nodes=("n3",)), Selector(rest=True))
    assert cut.when == OnPoint(point="checkpoint.before_commit", where={"generation": Condition(equals=3)})
    assert cut.hold == 8.0
    assert kill.fault.selectors() == (Selector(ranks=(1,)),)
    assert kill.when == After(step="network.partition", delay=2.0)
    assert kill.hold is None
    assert experiment.budget == Budget(
        rpo=Rpo(steps=20), rto=Rto(total=30.0, detect=6.0, restart=12.0, load=5.0, warmup=7.0)
    )
    assert [kind for kind, _ in experiment.invariants] == ["fenced-writer"]
    assert experiment.abort[0].bound == Condition(at_most=0.9)
    assert experiment.abort[0].mode is Mode.CONTINUOUS
    assert experiment.limits == Limits(wall=180.0, members_hurt=2)


def test_the_target_declares_slots_events_points_and_paths(load: Load) -> None:
    target = load(GOOD).target
    assert target.settings == {
        "nodes": 4, "steps": 100, "ratio": 0.5, "defect": "none", "fast": False, "lease": "3s",
    }  # fmt: skip
    assert len(target.slots) == 9
    assert target.events["step.completed"] == ("step", "rank", "epoch")
    assert target.events["quiet.event"] == ()
    assert target.points == {"checkpoint.before_commit": ("generation", "step", "epoch")}
    assert target.recovery_paths == ("checkpoint.rollback",)
    assert target.ends


def test_settings_are_filled_into_the_target_and_the_drivers_own_names_are_left(load: Load) -> None:
    (member,) = load(GOOD, steps="7").target.raw["members"]
    assert member["node"] == "n${i}"
    assert member["command"] == ["run", 7, "${data}/x", "${address.n0}", "${last}"]


def test_the_command_line_wins_over_the_file_and_the_file_over_the_default(load: Load) -> None:
    text = GOOD.replace("settings: {nodes: 4}", "settings: {nodes: 4, steps: 50}")
    assert load(text).target.settings["steps"] == 50
    assert load(text, steps="60").target.settings["steps"] == 60
    settings = load(text, defect="no-fencing", ratio="1", fast="true", lease="5").target.settings
    assert (settings["defect"], settings["ratio"], settings["fast"], settings["lease"]) == ("no-fencing", 1, True, "5")


def test_a_seed_of_the_call_wins(load: Load) -> None:
    assert load(GOOD, seed=9).seed == 9
    assert load(GOOD.replace("seed: 7\n", "")).seed == 0


def test_variables_are_settings_and_keep_their_type(load: Load) -> None:
    text = GOOD.replace("{steps: 20}", '{steps: "${steps}"}').replace("A sample", "${nodes} nodes, seed ${seed}")
    experiment = load(text.replace("8s", "${lease}"), seed=3)
    assert experiment.budget.rpo == Rpo(steps=100)
    assert experiment.title == "4 nodes, seed 3"
    assert experiment.method[0].hold == 3.0


def step(when: str) -> str:
    return f"target: target.yaml\nsteady-state-hypothesis: [{{probe: training.throughput, at-least: 1}}]\n" \
        f"method: [{{fault: process.kill, members: {{roles: worker}}, when: {when}}}]\n"  # fmt: skip


@pytest.mark.parametrize(
    ("when", "trigger"),
    [
        ("{at: 12.5s}", At(seconds=12.5)),
        ("{event: step.completed}", OnEvent(kind="step.completed")),
        (
            "{event: {kind: step.completed, where: {step: 3, rank: {at-least: 2}}, nth: 2}, delay: 10ms}",
            OnEvent(
                kind="step.completed",
                where={"step": Condition(equals=3), "rank": Condition(at_least=2.0)},
                nth=2,
                delay=0.01,
            ),
        ),
        (
            "{event: step.completed, where: {rank: [0, 1], source: worker-n0}, nth: 5}",
            OnEvent(
                kind="step.completed",
                where={"rank": Condition(one_of=(0, 1)), "source": Condition(equals="worker-n0")},
                nth=5,
            ),
        ),
        (
            "{event: {kind: member.exited, where: {role: worker}}}",
            OnEvent(kind="member.exited", where={"role": Condition(equals="worker")}),
        ),
        ("{point: checkpoint.before_commit, nth: 2}", OnPoint(point="checkpoint.before_commit", nth=2)),
        ("{log: 'out of memory'}", OnLog(regex="out of memory")),
        ("{log: {member: worker-*, regex: oom, nth: 3}}", OnLog(member="worker-*", regex="oom", nth=3)),
        ("{log: oom, nth: 3}", OnLog(regex="oom", nth=3)),
        (
            "{probe: {name: training.throughput, at-least: 5}}",
            OnProbe(probe="training.throughput", condition=Condition(at_least=5.0)),
        ),
        (
            "{probe: {name: training.throughput, between: [1, 2.5]}}",
            OnProbe(probe="training.throughput", condition=Condition(at_least=1.0, at_most=2.5)),
        ),
        (
            "{probe: {name: training.throughput, at-most: 3 samples/s}}",
            OnProbe(probe="training.throughput", condition=Condition(at_most=3.0)),
        ),
        ("{every: 30s, times: 4}", Every(period=30.0, times=4)),
        ("{poisson: 2/h}", Poisson(rate=2 / 3600)),
    ],
)
def test_every_trigger_has_its_form(load: Load, when: str, trigger: AnyTrigger) -> None:
    assert load(step(when)).method[0].when == trigger


@pytest.mark.parametrize(
    ("written", "selector"),
    [
        ("{nodes: [n1, n2]}", Selector(nodes=("n1", "n2"))),
        ("{nodes: n1}", Selector(nodes=("n1",))),
        ("{random: 1, roles: [worker]}", Selector(roles=("worker",), random=1)),
        ("{domains: {rack: r0}}", Selector(domains={"rack": "r0"})),
        ("{percent: 25}", Selector(percent=0.25)),
        ("{percent: 25%}", Selector(percent=0.25)),
        ("{names: coordinator-0}", Selector(names=("coordinator-0",))),
        ("{ranks: 0}", Selector(ranks=(0,))),
    ],
)
def test_every_selector_has_its_form(load: Load, written: str, selector: Selector) -> None:
    text = step("{at: 1s}").replace("{roles: worker}", written)
    assert load(text).method[0].fault.selectors() == (selector,)


@pytest.mark.parametrize(
    ("bound", "condition", "of_baseline"),
    [
        ("at-least: 12.5", Condition(at_least=12.5), False),
        ("at-least: 12 samples/s", Condition(at_least=12.0), False),
        ("at-least: 70% of baseline", Condition(at_least=0.7), True),
        ("between: [0.7 of baseline, 1.5 of baseline]", Condition(at_least=0.7, at_most=1.5), True),
        ("between: [1, 2]", Condition(at_least=1.0, at_most=2.0), False),
        ("equals: 0", Condition(equals=0.0), False),
    ],
)
def test_every_bound_has_its_form(load: Load, bound: str, condition: Condition, of_baseline: bool) -> None:
    hypothesis = load(GOOD.replace("at-least: 0.7 of baseline", bound)).steady[0]
    assert (hypothesis.bound, hypothesis.of_baseline) == (condition, of_baseline)


def test_a_bound_may_be_written_in_the_unit_of_its_probe(load: Load) -> None:
    text = GOOD.replace("training.throughput\n    at-least: 0.7 of baseline", "training.step-time\n    at-most: 250ms")
    assert load(text).steady[0].bound == Condition(at_most=0.25)


def test_plugins_get_their_settings_with_units(load: Load) -> None:
    freeze = """\
target: target.yaml
method:
  - fault: process.freeze
    members: {roles: [worker]}
    ramp: 250ms
    duty: 50%
    scratch: 1MiB
    how: cgroup
    threads: 4
    note: null
    signals: [19, 20]
    when: {at: 1s}
invariants:
  - fenced-writer: {attempt: optional}
"""
    experiment = load(freeze)
    fault = experiment.method[0].fault
    assert [getattr(fault, name) for name in ("ramp", "duty", "scratch", "how", "threads", "note", "signals")] == [
        0.25, 0.5, 1 << 20, "cgroup", 4, None, (19, 20),
    ]  # fmt: skip
    assert getattr(experiment.invariants[0][1], "attempt", None) == "optional"


def test_steps_of_one_kind_are_numbered_and_named_steps_keep_their_name(load: Load) -> None:
    kill = "{fault: process.kill, members: {ranks: 1}, when: {at: 1s}}"
    named = kill.replace("fault:", "name: last, fault:")
    experiment = load(f"target: target.yaml\nmethod: [{kill}, {kill}, {named}]")
    assert [step.name for step in experiment.method] == ["process.kill-1", "process.kill-2", "last"]


def test_the_rest_may_be_written_as_a_condition(load: Load) -> None:
    text = GOOD.replace("{nodes: rest}", "{rest: true}")
    assert load(text).method == load(GOOD).method


def test_after_may_name_a_kind_or_a_step(load: Load) -> None:
    text = GOOD.replace("  - fault: network.partition", "  - fault: network.partition\n    name: cut")
    assert load(text).method[1].when == After(step="cut", delay=2.0)
    assert load(text.replace("after: network.partition", "after: cut")).method[1].when == After(step="cut", delay=2.0)


def test_a_control_experiment_has_no_fault(load: Load) -> None:
    assert load("target: target.yaml\nmethod: []").method == ()


def test_words_are_read_as_yaml_1_2_reads_them(load: Load) -> None:
    text = "title: yes\ndescription: on\ntags: [no, off, 12:30:45, 2024-01-01, 0b1]\ntarget: target.yaml\nmethod: []"
    experiment = load(text)
    assert (experiment.title, experiment.description) == ("yes", "on")
    assert experiment.tags == ("no", "off", "12:30:45", "2024-01-01", "0b1")
    assert load("seed: 010\ntarget: target.yaml\nmethod: []").seed == 10
    assert load("seed: 0o10\ntarget: target.yaml\nmethod: []").seed == 8
    assert load("seed: 0x1F\ntarget: target.yaml\nmethod: []").seed == 31


def test_anchors_and_a_byte_order_mark_are_fine(load: Load) -> None:
    text = "\ufefftags: &t [a]\ntarget: target.yaml\nmethod: []\n"
    assert load(text).tags == ("a",)
    steps = "[&k {fault: process.kill, members: {ranks: 1}, when: {at: 1s}}, *k]"
    assert len(load(f"target: target.yaml\nmethod: {steps}").method) == 2


def test_a_target_that_declares_no_events_is_not_held_to_them(load: Load) -> None:
    start, end = TARGET.index("events:"), TARGET.index("points:")
    bare = TARGET[:start] + TARGET[end:]
    experiment = load(step("{event: anything.at_all}") + "invariants: [no-orphan]", target=bare)
    assert experiment.method[0].when == OnEvent(kind="anything.at_all")


def test_a_fault_of_checkpoints_asks_the_target_where_they_lie(tmp_path: Path) -> None:
    experiment, target = tmp_path / "e.yaml", tmp_path / "target.yaml"
    experiment.write_text("target: target.yaml\nmethod:\n  - {fault: checkpoint.unmark, when: {at: 1s}}\n")
    plain = "name: sample\ndriver: process\nmembers: [{name: a, role: a, command: [a]}]\n"
    target.write_text(plain)
    with pytest.raises(SpecError, match=r":3:13: `checkpoint.unmark` cannot .* no `checkpoints` \(declare it there"):
        load_experiment(experiment)
    target.write_text(plain + 'checkpoints: {generation: "step-{number}", markr: DONE}\n')
    with pytest.raises(SpecError, match=r"unknown key `markr` in `checkpoints` \(did you mean `marker`"):
        load_experiment(experiment)
    target.write_text(plain + 'checkpoints: {generation: "step-{number}", marker: DONE}\n')
    assert load_experiment(experiment).method[0].kind == "checkpoint.unmark"
