"""Mistakes in the method: steps, quantities, triggers, selectors."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.errors import SpecError
from chaos.load import load_experiment

from .broken import AT, FREEZE, HEAD, KILL, freeze, step, when, whom
from .conftest import Mistakes

ROWS: dict[str, tuple[str, str]] = {
    # --- the method
    "method a mapping": (f"{HEAD}method: {{a: b}}\n", "2:9: `method` is a list of steps, not a mapping"),
    "method a string": (f"{HEAD}method: kill\n", "2:9: `method` is a list of steps, not `kill`"),
    "method null": (f"{HEAD}method:\n", "2:8: `method` is a list of steps, not `null`"),
    "method a mix": (f"{HEAD}method: {{mix: []}}\n", "2:10: a `mix` is not there yet"),
    "a step that is a word": (f"{HEAD}method: [kill]\n", "2:10: a fault is a mapping, not `kill`"),
    "a step without fault": (
        step("members: {ranks: 1}", AT),
        "3:5: no `fault` is named (add `fault: KIND`; `chaos list faults` shows them)",
    ),
    "a mistyped fault key": (step("fautl: process.kill", AT), "3:5: unknown key `fautl` (did you mean"),
    "a fault that does not exist": (
        step("fault: network.partion", AT),
        "3:12: unknown fault `network.partion` (did you mean `network.partition`?)",
    ),
    "an unknown setting": (
        step("fault: process.kill", "members: {ranks: 1}", "membrs: 3", AT),
        "5:5: unknown key `membrs` in `process.kill` (did you mean `members`?)",
    ),
    "a pause": (
        step("fault: process.kill", "members: {ranks: 1}", "pauses: 3", AT),
        "5:5: unknown key `pauses` in `process.kill`",
    ),
    "a missing setting": (step("fault: process.kill", AT), "3:5: `process.kill` lacks `members`"),
    "a name given twice": (
        f"{HEAD}method:\n  - {{name: a, {KILL}, {AT}}}\n  - {{name: a, {KILL}, {AT}}}\n",
        "4:12: the name `a` is given twice",
    ),
    # --- quantities
    "a word as duration": (
        freeze("hold: fast"),
        "6:11: `fast` is no duration (such as 250ms, 8s, 2m, 1h)",
    ),
    "an unknown unit": (
        freeze("hold: 5 parsecs"),
        "6:11: unknown unit `parsecs` in `5 parsecs` (a duration is written 250ms, 8s, 2m, 1h; units: us, ms,",
    ),
    "a bare number as duration": (
        freeze("hold: 5"),
        "6:11: `5` has no unit (a duration is written 250ms",
    ),
    "a hold of nothing": (freeze("hold: 0s"), "6:11: a hold of zero: it would be healed as soon as it has landed"),
    "a negative duration": (
        freeze("hold: -5s"),
        "6:11: `-5s` is negative",
    ),
    "a duration that is no number": (
        freeze("hold: .nan"),
        "6:11: `nan` is not finite",
    ),
    "an infinite duration": (
        freeze("hold: infs"),
        "6:11: `infs` is not finite",
    ),
    "a list as duration": (
        freeze("hold: [5s]"),
        "6:11: a duration is meant, not a list",
    ),
    "hold of an instant fault": (
        step("fault: process.kill", "members: {ranks: 1}", AT, "hold: 5s"),
        "6:5: `process.kill` is done in an instant: nothing to hold (remove `hold`)",
    ),
    "a size without unit": (
        freeze("scratch: 64"),
        "6:14: `64` has no unit (a size is written 64KiB or 10MB; units: B, kB,",
    ),
    "not one of the words": (
        freeze("how: stpo"),
        "6:10: one of cgroup, stop is meant, not `stpo` (did you mean `stop`?)",
    ),
    "a number out of bounds": (
        freeze("threads: 65"),
        "6:14: `65` is not at most 64",
    ),
    "a word as a number": (
        freeze("threads: many"),
        "6:14: a whole number is meant, not `many`",
    ),
    "true as a number": (
        freeze("threads: true"),
        "6:14: a whole number is meant, not `true`",
    ),
    "yes as a boolean": (
        freeze("only-leader: yes"),
        "6:18: true or false is meant, not `yes`",
    ),
    "a check of the plugin's own": (
        freeze("only-leader: true", "how: cgroup"),
        "3:5: a cgroup has no leader",
    ),
    # --- triggers
    "no trigger": (step("fault: process.kill", "members: {ranks: 1}"), "3:5: no trigger (add `when:` with at,"),
    "an empty trigger": (
        when("{}"),
        "5:11: no trigger (one of at, event,",
    ),
    "two triggers": (
        when("{at: 1s, event: step.completed}"),
        "5:20: two triggers in one step: `at` and `event` (keep one)",
    ),
    "an unknown trigger": (
        when("{evnt: a, at: 1s}"),
        "5:12: unknown key `evnt` in `when` (did you mean `event`?)",
    ),
    "an unknown phase": (
        when("{phase: recovery.lod}"),
        "5:19: there is no phase `recovery.lod` (did you mean `recovery.load`?)",
    ),
    "a phase that the target never says it enters": (
        when("{phase: recovery.load}"),
        "5:19: `recovery.load` is entered by failure.detected, checkpoint.loading, which the target does not declare",
    ),
    "an unknown file operation": (
        when("{file: {path: 'x', op: renam}}"),
        "5:34: there is no file operation `renam` (did you mean `rename`?)",
    ),
    "a file trigger without an operation": (
        when("{file: {path: x}}"),
        "5:18: `file` lacks `op`",
    ),
    "what does not go together": (
        when("{at: 1s, nth: 2}"),
        "5:20: `nth` does not go with `at`",
    ),
    "when as a word": (
        when("soon"),
        "5:11: `when` is a mapping, not `soon`",
    ),
    "a negative delay": (
        when("{at: 1s, delay: -1s}"),
        "5:27: `-1s` is negative",
    ),
    "an event the target does not declare": (
        when("{event: step.complete}"),
        "5:19: the target declares no event `step.complete` (did you mean `step.completed`?)",
    ),
    "a field the event does not have": (
        when("{event: step.completed, where: {stp: 3}}"),
        "5:43: `step.completed` declares no field `stp` (did you mean `step`?)",
    ),
    "a point the target does not declare": (
        when("{point: checkpoint.before_comit}"),
        "5:19: the target declares no failpoint `checkpoint.before_comit` (did you mean `checkpoint.before",
    ),
    "a field the point does not have": (
        when("{point: checkpoint.before_commit, where: {rank: 1}}"),
        "5:53: `checkpoint.before_commit` declares no field `rank` (known: epoch, generation, source, step)",
    ),
    "nth of zero": (
        when("{event: step.completed, nth: 0}"),
        "5:40: `0` is not at least 1",
    ),
    "no regular expression": (
        when("{log: 'a('}"),
        "5:17: no regular expression: missing )",
    ),
    "a log of nobody": (
        when("{log: {member: 'wrker-*', regex: a}}"),
        "5:26: `wrker-*` matches no member of the target",
    ),
    "a probe that nobody samples": (
        when("{probe: {name: training.throughput, at-least: 1}}"),
        "5:26: no hypothesis samples a probe named `training.throughput` (name it under `steady-state-hyp",
    ),
    "a rate of zero": (
        when("{poisson: 0/h}"),
        "5:21: `0/h` is no rate above zero",
    ),
    "a rate without unit": (
        when("{poisson: 2}"),
        "5:21: `2` has no unit (a rate is written 0.5/s",
    ),
    "a period of zero": (
        when("{every: 0s}"),
        "5:19: a period of zero",
    ),
    "an impossible condition": (
        when("{event: step.completed, where: {step: {between: [3, 1]}}}"),
        "5:49: no number is at least 3 and at most 1",
    ),
    "after nobody": (
        when("{after: network.partition}"),
        "5:19: no step is named `network.partition` (known: process.kill)",
    ),
    "after itself": (
        when("{after: process.kill}"),
        "5:19: a cycle: `process.kill` after `process.kill`",
    ),
    "a cycle of after": (
        f"{HEAD}method:\n  - {{name: a, {KILL}, when: {{after: b}}}}\n  - {{name: b, {KILL}, when: {{after: c}}}}\n"
        f"  - {{name: c, {KILL}, when: {{after: a}}}}\n  - {{name: d, {KILL}, when: {{after: a}}}}\n",
        "3:71: a cycle: `a` after `b` after `c` after `a` (start one of them by another trigger)",
    ),
    "after one of several": (
        f"{HEAD}method:\n  - {{{KILL}, {AT}}}\n  - {{{KILL}, {AT}}}\n  - {{{FREEZE}, when: {{after: process.kill}}}}\n",
        "5:64: 2 steps are `process.kill` (name one: process.kill-1, process.kill-2)",
    ),
    "after a heal that never comes": (
        f"{HEAD}method:\n  - {{{FREEZE}, {AT}}}\n  - {{{KILL}, when: {{after: process.freeze, healed: true}}}}\n",
        "4:62: `process.freeze` is held to the end, so its heal comes too late",
    ),
    # --- selectors
    "a node that is not there": (
        whom("{nodes: [n0, n9]}"),
        "4:27: the target has no node `n9` (known: n0, n1, n2, n3)",
    ),
    "a rank that is not there": (
        whom("{ranks: [4]}"),
        "4:23: the target has no rank `4`",
    ),
    "a role that is not there": (
        whom("{roles: [wroker]}"),
        "4:23: the target has no role `wroker` (did you mean `worker`?)",
    ),
    "a domain that is not there": (
        whom("{domains: {rack: r7}}"),
        "4:31: the target has no rack `r7` (known: r0, r1)",
    ),
    "a kind of domain that is not there": (
        whom("{domains: {rck: r0}}"),
        "4:30: the target has no rck `r0` (did you mean `rack`?)",
    ),
    "conditions that exclude each other": (
        whom("{nodes: [n1], ranks: [2]}"),
        "4:14: selects no member: nobody meets all of its conditions",
    ),
    "an empty selector": (whom("{}"), "4:14: a selector without a"),
    "an empty list": (whom("{ranks: []}"), "4:22: an empty list selects"),
    "more dice than members": (
        whom("{roles: [coordinator], random: 2}"),
        "4:37: `random: 2` of 1 that match (at most 1)",
    ),
    "no dice": (whom("{random: 0}"), "4:23: `0` is not at least 1"),
    "two kinds of dice": (
        whom("{random: 1, percent: 5}"),
        "4:26: `random` and `percent` in one selector",
    ),
    "more than all": (whom("{percent: 250}"), "4:24: `250` is no percentage"),
    "the rest of nothing": (
        whom("{nodes: rest}"),
        "4:14: `nodes: rest` without a selector that it could be the rest of",
    ),
    "the rest of all": (
        step("fault: network.partition", "between: [{roles: worker}, {nodes: rest}]", AT),
        "4:32: `nodes: rest` is nobody",
    ),
    "a file that nobody can reach": (
        when("{file: {path: store/../x, op: write}}"),
        "5:25: no operation is on `store/../x`: paths are told without `..`",
    ),
    "a selector as a word": (whom("n1"), "4:14: a selector is a mapping, not"),
    "one side of a partition": (
        step("fault: network.partition", "between: [{nodes: n1}]", AT),
        "4:14: a list of a selector, a selector has 2 items, not 1",
    ),
}


@pytest.mark.parametrize(("text", "expected"), ROWS.values(), ids=ROWS)
def test_a_mistake_is_told_once_at_its_place(mistakes: Mistakes, text: str, expected: str) -> None:
    (only,) = mistakes(text)
    assert only.startswith(f"sample.yaml:{expected}"), only


PARTLY_ON_NODES = """\
name: sample
driver: process
nodes: [{name: n1}]
members:
  - {name: a, role: one, command: [x]}
  - {name: b, role: two, command: [x], node: n1}
"""


@pytest.mark.parametrize("fault", ["storage.power-cut", "domain.power-off", "network.isolate"])
def test_a_fault_of_nodes_is_not_for_members_that_are_on_none(tmp_path: Path, fault: str) -> None:
    (tmp_path / "target.yaml").write_text(PARTLY_ON_NODES)
    file = tmp_path / "sample.yaml"
    file.write_text(step(f"fault: {fault}", "members: {roles: two}", AT))
    assert load_experiment(file).method[0].kind == fault
    file.write_text(step(f"fault: {fault}", "members: {roles: one}", AT))
    with pytest.raises(SpecError, match=rf"`{fault}` hits nodes, and these are on none: a \(give members a `node`"):
        load_experiment(file)


def test_a_fault_on_files_that_nobody_can_reach_is_refused(tmp_path: Path) -> None:
    (tmp_path / "target.yaml").write_text(PARTLY_ON_NODES)
    file = tmp_path / "sample.yaml"
    file.write_text(step("fault: storage.error", "path: store/../x", AT))
    with pytest.raises(SpecError, match=r"no operation is on 'store/\.\./x': paths are told without `\.\.`"):
        load_experiment(file)


@pytest.mark.parametrize(
    ("fault", "when", "why"),
    [
        ("process.preempt", "{point: p, where: {source: a}}", r"until a has .*, and a stands at that failpoint"),
        ("process.preempt", "{point: p, where: {one: a}}", "and a stands at that failpoint"),
        ("process.oom", "{file: {path: x, op: rename}, where: {source: a}}", "stands before that file operation"),
        ("process.preempt", "{point: p, where: {source: b}}", ""),
        ("process.preempt", "{point: p}", ""),
        ("process.kill", "{point: p, where: {source: a}}", ""),
    ],
)
def test_a_fault_that_waits_for_its_victim_while_its_victim_waits_for_it_is_refused(
    tmp_path: Path, fault: str, when: str, why: str
) -> None:
    (tmp_path / "target.yaml").write_text(f"{PARTLY_ON_NODES}points:\n  p: [one]\n")
    file = tmp_path / "sample.yaml"
    file.write_text(step(f"fault: {fault}", "members: {names: [a]}", f"when: {when}"))
    if not why:
        assert load_experiment(file).method[0].kind == fault
        return
    with pytest.raises(SpecError, match=rf"never lands: .*{why}"):
        load_experiment(file)
