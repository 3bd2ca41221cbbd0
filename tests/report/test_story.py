"""The first screen in words: what broke, whether it recovered, what to do next."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from chaos.catalogue import list_kinds
from chaos.errors import Exit
from chaos.history import Event, History
from chaos.report import phrases
from chaos.report.story import Story, Told, story
from chaos.result import Kind, Need, Result
from chaos.verdict import Outcome, failed, unknown

from .scripted import Script, check, partition_run, result_of, serving_run

NOTHING = Told({}, {}, "")


def told(result: Result, events: list[Event], **about: Any) -> Story:
    return story(result, History(events), NOTHING._replace(**about))


def recovered(result: Result, **changes: Any) -> Result:
    return msgspec.structs.replace(result, recoveries=(msgspec.structs.replace(result.recoveries[0], **changes),))


def test_every_fault_has_words_of_its_own() -> None:
    assert set(phrases._BROKE) == {row.kind for row in list_kinds("faults")}


def fault(kind: str, **fields: Any) -> list[Event]:
    tell = Script()
    for i in range(5):
        tell(0.1, f"w{i}", "member.started", member=f"w{i}", role="worker", node=f"n{i // 2}", rank=i, pid=i)
    tell(5.1, "fault:f", "fault.landed", **{"kind": kind, "evidence": {}, "instant": True, **fields})
    return tell.events


@pytest.mark.parametrize(
    ("kind", "fields", "words"),
    [
        ("process.kill", {"members": ["w1"]}, "Process w1 (rank 1) was killed"),
        ("process.kill", {"members": ["w1", "w3"]}, "Processes w1 (rank 1) and w3 (rank 3) were killed"),
        ("domain.power-off", {"members": ["w0", "w1"]}, "Node n0 lost power"),
        ("process.kill", {"members": ["w0", "w1", "w2", "w3"]}, "Nodes n0 and n1 were killed"),
        ("checkpoint.corrupt", {"members": [], "evidence": {"generation": 3}}, "Checkpoint 3 was damaged on its disk"),
        ("network.latency", {"members": [], "evidence": {"link": "store"}}, "sent over the link store arrived late"),
        ("own.kind{x}", {"members": ["w1"]}, "The fault own.kind(x) hit process w1"),
        ("process.kill", {}, "The system was killed"),
    ],
)
def test_a_fault_is_told_without_the_words_of_the_tool(kind: str, fields: dict[str, Any], words: str) -> None:
    events = fault(kind, **fields)
    assert words in told(result_of(partition_run()), events).broke


@pytest.mark.parametrize(
    ("trigger", "words"),
    [
        (
            {"kind": "point.reached", "name": "checkpoint.before_commit", "generation": 3},
            "while checkpoint 3 was being",
        ),
        ({"kind": "point.reached", "name": "own.point"}, "while w0 stood at “own.point”"),
        ({"kind": "step.completed", "step": 25}, "right after step 25"),
        ({"kind": "request.completed"}, "while requests were being served"),
        ({"kind": "own.kind", "x": 1}, "right after: own.kind x=1"),
        (None, "5.1 s into the run"),
    ],
)
def test_the_moment_is_told_by_what_the_job_was_doing(trigger: dict[str, Any] | None, words: str) -> None:
    tell = Script()
    if trigger is not None:
        tell(5.0, "w0", trigger["kind"], **{k: v for k, v in trigger.items() if k != "kind"})
    tell(5.0, "fault:f", "fault.injecting", members=["w0"], trigger=0 if trigger else None)
    tell(5.1, "fault:f", "fault.landed", kind="process.kill", members=["w0"], evidence={}, instant=True)
    assert words in told(result_of(partition_run()), tell.events).broke


def test_a_run_without_a_fault_says_so() -> None:
    events = [e for e in partition_run() if not e.kind.startswith("fault.")]
    assert "on purpose" in told(result_of(partition_run()), events).broke


def test_a_fault_that_never_came_is_named() -> None:
    tell = Script()
    tell(1.0, "fault:cut", "fault.missed", reason="the run ended before")
    assert "“cut” did not take effect" in told(result_of(partition_run()), tell.events).broke


@pytest.mark.parametrize(
    ("changes", "answer", "words"),
    [
        ({}, "Yes", "Training went on after 4.1 s, of 30.0 s allowed; no step was lost"),
        ({"resume": 2.0}, "Yes", "went on after 2.0 s and was up to speed after 4.1 s"),
        ({"total": 31.0}, "Too late", "31.0 s, of 30.0 s allowed"),
        ({"lost_steps": 5}, "Yes", "5 steps of work had to be done again, of 20 allowed"),
        ({"lost_steps": None}, "Yes", "how much work was lost is not known"),
        ({"serving": True}, "Yes", "Clients were served as before after 4.1 s"),
        ({"serving": True, "total": 0.0}, "Yes", "No client noticed it"),
        ({"need": Need.NONE}, "Yes", "no recovery was needed"),
    ],
)
def test_the_recovery_is_told_beside_what_is_allowed(changes: dict[str, Any], answer: str, words: str) -> None:
    events = partition_run()
    found = told(recovered(result_of(events), **changes), events)
    assert found.answer == answer
    assert words in found.recovered


@pytest.mark.parametrize(
    ("outcome", "answer"), [(Outcome.FAIL, "No"), (Outcome.PASS, "Not yet"), (Outcome.UNKNOWN, "Not known")]
)
def test_a_recovery_that_is_not_over_is_told_by_what_became_of_it(outcome: Outcome, answer: str) -> None:
    events = partition_run()
    result = msgspec.structs.replace(recovered(result_of(events), complete=False, total=None), outcome=outcome)
    found = told(result, events)
    assert found.answer == answer
    assert "6.3 s after the fault, training had not gone on; 30.0 s were allowed" in found.recovered
    unseen = recovered(result, complete=False, total=None, detect=None)
    assert "had not been noticed" in told(unseen, events).recovered
    ended = recovered(result, complete=False, total=None, evidence={"ended": 3})
    assert "ended the whole system" in told(ended, events).recovered
    unasked = msgspec.structs.replace(result, checks=())
    assert "no limit was set" in told(unasked, events).recovered


def test_a_run_that_hung_did_not_simply_go_on() -> None:
    events = partition_run()
    hung = check("progress", Kind.RUN, failed("no progress for 10 s", [3]))
    found = told(recovered(result_of(events, hung, outcome=Outcome.FAIL), need=Need.NONE), events)
    assert (found.answer, "no progress for 10 s" in found.recovered) == ("No", True)


def test_faults_of_one_moment_are_told_as_such() -> None:
    tell = Script()
    for name in ("a", "b"):
        tell(0.1, name, "member.started", member=name, node=name, pid=1)
    tell(5.0, "c", "point.reached", name="checkpoint.before_commit", generation=3)
    for name in ("a", "b"):
        tell(5.0, f"fault:{name}", "fault.injecting", members=[name], trigger=2)
        tell(5.1, f"fault:{name}", "fault.landed", kind="process.kill", members=[name], evidence={}, instant=True)
    broke = told(result_of(partition_run()), tell.events).broke
    assert broke == (
        "Process a was killed while checkpoint 3 was being committed; then process b was killed at the same time."
    )


def test_a_fault_that_lay_in_wait_is_told_as_set_up() -> None:
    tell = Script()
    tell(0.1, "a", "member.started", member="a", node="a", pid=1)
    tell(5.0, "a", "step.completed", step=5)
    tell(5.0, "fault:f", "fault.injecting", members=["a"], trigger=1)
    tell(9.0, "fault:f", "fault.landed", kind="storage.bit-rot", members=["a"], evidence={})
    tell(10.0, "fault:f", "fault.healed", kind="storage.bit-rot")
    broke = told(result_of(partition_run()), tell.events).broke
    assert broke == "Process a read a file with flipped bits for 1.0 s (set up right after step 5)."


def test_another_budget_that_is_broken_is_no_yes() -> None:
    events = partition_run()
    broken = check("rpo.samples", Kind.BUDGET, failed("40 of 20", [3]), value=40, limit=20, unit="samples")
    assert told(result_of(events, broken, outcome=Outcome.FAIL), events).answer == "Not as promised"


def test_a_failure_leads_to_its_check_its_events_and_the_command() -> None:
    events = partition_run()
    broken = check("fenced", Kind.INVARIANT, failed("a stale write was taken", [171, 180, 200, 220, 240]))
    result = msgspec.structs.replace(result_of(events, broken, outcome=Outcome.FAIL), headline="fenced: a stale write")
    found = told(result, events, replay="chaos run x.yaml")
    assert "recovered in time, but a promise was broken: a stale write was taken" in found.why
    first = found.advice[0]
    assert first.check == broken
    assert ([e.seq for e in first.events], first.more) == ([171, 220, 240], 2)
    assert found.advice[-1].command == "chaos run x.yaml"


def test_a_failure_on_a_busy_machine_says_so() -> None:
    events = partition_run()
    broken = check("fenced", Kind.INVARIANT, failed("a stale write was taken", [171]))
    result = result_of(events, broken, outcome=Outcome.FAIL)
    for share, said in ((0.62, True), (0.1, False), (None, False)):
        found = told(msgspec.structs.replace(result, others=share), events)
        assert any("62 % of this machine's processors" in a.text for a in found.advice) is said


def test_what_is_missing_is_shown_by_what_is_around_it() -> None:
    events = partition_run()
    broken = check("noticed", Kind.INVARIANT, failed("never noticed"))
    found = told(result_of(events, broken, outcome=Outcome.FAIL), events)
    assert [e.kind for e in found.advice[0].events] == ["fault.landed", "run.ended"]


def test_an_inconclusive_run_says_how_to_get_a_verdict() -> None:
    events = partition_run()
    missing = check("network.partition 2", Kind.FAULT, unknown("it never landed"))
    found = told(result_of(events, missing, outcome=Outcome.UNKNOWN), events)
    assert "Nothing is proved" in found.why
    assert "chaos doctor" in found.advice[1].text


def test_a_fault_whose_trigger_never_fired_is_no_matter_of_the_machine() -> None:
    events = partition_run()
    missing = check("process.kill", Kind.FAULT, unknown("was never injected: the run ended before its trigger fired"))
    busy = msgspec.structs.replace(result_of(events, missing, outcome=Outcome.UNKNOWN), others=0.9)
    found = told(busy, events)
    assert "process.kill was never injected" in found.why
    assert "have it fire earlier (`when:`)" in found.advice[1].text
    assert not any("processors" in advice.text or "doctor" in advice.text for advice in found.advice)


@pytest.mark.parametrize(
    ("exit", "word"), [(Exit.HEAL_FAILED, "Heal failed"), (Exit.INTERRUPTED, "Interrupted"), (Exit.PASS, "Passed")]
)
def test_what_is_worse_than_the_outcome_is_the_word(exit: Exit, word: str) -> None:
    events = partition_run()
    assert told(msgspec.structs.replace(result_of(events), exit=exit), events).word == word


def test_a_service_is_told_without_ranks() -> None:
    events = serving_run()
    assert "process replica-1 was killed for 3.2 s" in told(result_of(events), events).broke
