"""A good record of a service with one lie in it: somebody must notice each.

Each lie breaks a promise, or takes away what a verdict rests on. It is noticed where a check that passed does not pass
any more; `red` are those of which at least one must fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from chaos.experiment import Budget, Rto
from chaos.history import Event, History
from chaos.invariants.accurate_ejection import AccurateEjection
from chaos.invariants.fenced_session import FencedSession
from chaos.invariants.health_truth import HealthTruth
from chaos.invariants.no_dead_routing import NoDeadRouting
from chaos.invariants.no_wrong_answer import NoWrongAnswer
from chaos.invariants.reclaim import Reclaim
from chaos.invariants.request_terminates import RequestTerminates
from chaos.invariants.served_generation import ServedGeneration
from chaos.invariants.shed_not_amplify import ShedNotAmplify
from chaos.invariants.unbroken_stream import UnbrokenStream
from chaos.judge import judge
from chaos.verdict import Outcome
from judge.asked import KILL, contract
from judge.serving_histories import Stack

INVARIANTS = [
    ("health-truth", HealthTruth()), ("no-dead-routing", NoDeadRouting(within=1.0)),
    ("request-terminates", RequestTerminates()), ("no-wrong-answer", NoWrongAnswer()),
    ("shed-not-amplify", ShedNotAmplify(judge="retries")), ("reclaim", Reclaim(within=1.0)),
    ("accurate-ejection", AccurateEjection()), ("served-generation", ServedGeneration()),
    ("unbroken-stream", UnbrokenStream(way="replica")), ("fenced-session", FencedSession()),
]  # fmt: skip
Events = list[Event]
OF_REQUESTS = ("request.sent", "request.completed", "attempt.completed", "request.shed")
LIES: dict[str, tuple[Callable[[Events], Events], tuple[str, ...]]] = {}


def good() -> Stack:
    """Replica 1 is killed with a stream, which goes on at its copy; an older owner is refused; it comes back."""
    stack = Stack().open().serve(60)
    for name in stack.pids:
        stack.usage(name)
    for i in range(6):
        stack.stream((f"replica-{i % 3}", 200), session=f"a{i}")
    stack.add(
        "kv.written", "replica-1", replica="replica-1", session="s1", tokens=40, to="replica-2", token=1, highest=1
    )
    stack.kill("replica-1")
    began = stack.t - 0.3
    stack.ask(("replica-1", 0), ("replica-0", 200))
    stack.wait(0.01).eject("replica-1", "connection")
    for level in ("live", "ready", "correct"):
        stack.health("replica-1", level, up=False)
    stack.add("session.resumed", "replica-2", replica="replica-2", session="s1", turn=0, way="replica", recomputed=0,
              computed=1, seconds=0.02)  # fmt: skip
    stack.stream(("replica-1", 0), ("replica-2", 200), streamed=9, resumed="replica", gap=0.4, began=began)
    stack.add(
        "kv.written", "replica-2", replica="replica-2", session="s1", tokens=64, to="replica-0", token=2, highest=2
    )
    stack.add("write.rejected", "replica-1", resource="session/s1", op="kv.write", token=1, highest=2,
              member="replica-1", reason="stale-epoch")  # fmt: skip
    stack.ask(("replica-0", 500), ("replica-2", 200))
    for i in range(8):
        stack.serve(10, "replica-0", "replica-2").usage("replica-0")
        stack.usage("replica-2")
        stack.stream(("replica-0", 200), session=f"b{i}")
    stack.boot("replica-1")
    stack.back("replica-1")
    return stack.serve(90).close()


def outcomes(events: Events) -> dict[str, Outcome]:
    ordered = History(msgspec.structs.replace(e, seq=i) for i, e in enumerate(events))
    asked = contract(steps=(KILL,), budget=Budget(rto=Rto(total=3.0, detect=1.0)))
    return {c.name: c.verdict.outcome for c in judge(asked, ordered, INVARIANTS).checks}


def test_the_good_record_passes() -> None:
    assert {n: o for n, o in outcomes(good().events).items() if o is not Outcome.PASS} == {}


# --- what lies are made of -------------------------------------------------------------------------------------------


def lie(*red: str) -> Callable[[Callable[[Events], Events]], Callable[[Events], Events]]:
    def enter(change: Callable[[Events], Events]) -> Callable[[Events], Events]:
        LIES[change.__name__] = change, red
        return change

    return enter


def other(event: Event, **facts: Any) -> Event:
    return msgspec.structs.replace(event, data={**event.data, **facts})


def struck(events: Events) -> float:
    return next(e.t for e in events if e.kind == "fault.landed")


def after(events: Events, seconds: float = 0.0, length: float = 1e9, /, **where: Any) -> Iterator[Event]:
    """Requests that ended so long after the fault."""
    t = struck(events) + seconds
    return (
        e for e in events
        if e.kind == "request.completed" and t < e.t < t + length and all(e.get(k) == v for k, v in where.items())
    )  # fmt: skip


def put(events: Events, *new: Event) -> Events:
    return sorted([*events, *new], key=lambda e: e.t)


def without(events: Events, ids: set[Any], *kinds: str) -> Events:
    return [e for e in events if not (e.kind in (kinds or OF_REQUESTS) and e.get("id") in ids)]


def changed(events: Events, chosen: Callable[[Event], bool], **facts: Any) -> Events:
    return [other(e, **facts) if chosen(e) else e for e in events]


# --- what the service did --------------------------------------------------------------------------------------------


@lie("request-terminates")
def a_request_never_ends(events: Events) -> Events:
    return without(events, {next(after(events)).get("id")}, "request.completed")


@lie("request-terminates", "rto.total")
def none_ends_for_a_while(events: Events) -> Events:
    return without(events, {e.get("id") for e in after(events, 0.5, 3.0)}, "request.completed", "attempt.completed")


@lie("rto.total", "no-wrong-answer")
def errors_are_told_as_mistakes_of_clients(events: Events) -> Events:
    ids = {e.get("id") for e in after(events, 0.0, 4.0)}
    return changed(events, lambda e: e.kind == "request.completed" and e.get("id") in ids, status=400, right=None)


@lie("health-truth")
def a_replica_calls_everything_a_mistake(events: Events) -> Events:
    return changed(
        events, lambda e: e.kind in ("attempt.completed", "request.completed") and e.get("replica") == "replica-0",
        status=400, right=None,
    )  # fmt: skip


@lie("health-truth")
def health_is_right_only_while_it_is_looked_at(events: Events) -> Events:
    """Two of three real requests fail, and the router helps them out."""
    said = [e.seq for e in events if e.kind == "attempt.completed" and e.get("replica") == "replica-0"]
    bad = {seq for i, seq in enumerate(said) if i % 3}
    return changed(events, lambda e: e.seq in bad, status=500)


@lie("health-truth")
def a_dead_one_is_said_to_be_well(events: Events) -> Events:
    return [e for e in events if not (e.kind == "health.changed" and e.get("up") is False)]


@lie("accurate-ejection")
def a_returned_one_is_asked_nothing(events: Events) -> Events:
    back = next(e.t for e in events if e.kind == "replica.returned")
    return changed(
        events, lambda e: e.kind in ("attempt.completed", "request.completed") and e.t > back
        and e.get("replica") == "replica-1", replica="replica-0",
    )  # fmt: skip


@lie("unbroken-stream")
def a_stream_drops_its_last_token_and_says_done(events: Events) -> Events:
    last = next(after(events, what="generate"))
    return changed(events, lambda e: e is last, tokens=23)


@lie("unbroken-stream")
def a_stream_stops_and_nobody_says_so(events: Events) -> Events:
    def meant(event: Event) -> bool:
        return event.get("id") == cut.get("id") and event.kind in ("request.sent", "request.completed")

    cut = next(after(events, what="generate"))
    return without(changed(events, meant, deadline=1.0), {cut.get("id")}, "request.completed")


@lie("no-wrong-answer")
def a_mistake_gets_an_answer(events: Events) -> Events:
    one = next(after(events, what="rank")).get("id")
    return changed(events, lambda e: e.get("id") == one and e.kind.startswith("request."), wrong=True)


@lie("shed-not-amplify")
def more_attempts_than_are_told(events: Events) -> Events:
    one = next(after(events, what="rank"))
    return changed(events, lambda e: e is one, attempts=7)


@lie("reclaim")
def a_replica_works_on_for_nobody(events: Events) -> Events:
    return changed(events, lambda e: e.kind == "replica.usage" and e.get("replica") == "replica-0", in_flight=3)


@lie()
def another_replica_ends_as_well(events: Events) -> Events:
    gone = Event(0, struck(events) + 0.5, 0.0, "harness", "member.exited",
                 {"member": "store", "role": "store", "node": "s0", "pid": 100, "code": 1})  # fmt: skip
    return put(events, gone)


@lie()
def another_replica_leaves_without_an_error(events: Events) -> Events:
    """And comes back by itself."""
    gone = Event(0, struck(events) + 0.5, 0.0, "harness", "member.exited",
                 {"member": "replica-2", "role": "replica", "node": "r2", "pid": 212, "code": 0})  # fmt: skip
    return put(events, gone)


@lie()
def an_older_owner_writes_and_nobody_tells_what_was_known(events: Events) -> Events:
    refused = next(e for e in events if e.kind == "write.rejected")
    facts = {"replica": "replica-1", "session": "s1", "tokens": 50, "to": "replica-0", "token": 1, "highest": None}
    return put(events, msgspec.structs.replace(refused, kind="kv.written", data=facts))


# --- what the record leaves out, or says twice -----------------------------------------------------------------------


@lie()
def a_request_ends_twice_wrong_first(events: Events) -> Events:
    one = next(after(events, what="rank"))
    return put(events, msgspec.structs.replace(other(one, right=False), t=one.t - 0.0001))


@lie()
def a_request_ends_twice_error_last(events: Events) -> Events:
    one = next(after(events, what="rank"))
    return put(events, msgspec.structs.replace(other(one, status=503), t=one.t + 0.0001))


@lie()
def the_router_asks_twice_and_tells_of_it_once(events: Events) -> Events:
    asked = sum(e.kind == "attempt.completed" and e.get("replica") == "replica-0" for e in events)
    return changed(events, lambda e: e.kind == "replica.usage" and e.get("replica") == "replica-0", asked=2 * asked)


@lie()
def second_attempts_go_by_another_name(events: Events) -> Events:
    again = [e for e in events if e.kind == "attempt.completed" and e.get("replica") == "replica-0"]
    return put(events, *(other(e, id=f"again-{e.get('id')}") for e in again))


@lie()
def failures_that_the_load_counted_are_answers(events: Events) -> Events:
    return changed(events, lambda e: e.kind == "load.ended", failures=40)


@lie()
def what_failed_was_a_mistake_afterwards(events: Events) -> Events:
    ids = {e.get("id") for e in after(events, 0.0, 4.0)}
    return changed(
        events, lambda e: e.kind == "request.completed" and e.get("id") in ids, status=503, wrong=True, right=None
    )


@lie()
def a_third_is_off_the_record(events: Events) -> Events:
    return without(events, {e.get("id") for e in list(after(events))[::3]})


@lie("job done")
def the_load_is_over_early(events: Events) -> Events:
    over = next(e for e in events if e.kind == "load.ended")
    begun = next(e.t for e in events if e.kind == "load.started")
    return changed(put([e for e in events if e is not over], over), lambda e: e.kind == "load.started",
                   seconds=2 * (over.t - begun))  # fmt: skip


@lie()
def nobody_asks_while_it_recovers(events: Events) -> Events:
    t = struck(events)
    ids = {e.get("id") for e in events if e.kind == "request.sent" and t - 0.1 < e.t < t + 3.0}
    left = without(events, ids)
    return changed(left, lambda e: e.kind == "load.ended", requests=sum(e.kind == "request.completed" for e in left))


@lie()
def latencies_are_told_from_the_wrong_moment(events: Events) -> Events:
    ids = {e.get("id") for e in after(events, 0.0, 1.0, what="rank")}
    return put([], *(
        msgspec.structs.replace(e, t=e.t + 0.6) if e.kind == "request.completed" and e.get("id") in ids else e
        for e in events
    ))  # fmt: skip


@lie()
def requests_end_before_they_begin(events: Events) -> Events:
    ids = {e.get("id") for e in after(events, 0.0, 1.0, what="rank")}
    return put([], *(
        msgspec.structs.replace(e, t=e.t - 0.6) if e.kind == "request.completed" and e.get("id") in ids else e
        for e in events
    ))  # fmt: skip


@lie()
def the_router_has_another_clock(events: Events) -> Events:
    return put([], *(
        msgspec.structs.replace(e, t=e.t + 1.5) if e.source == "router" and e.kind == "attempt.completed" else e
        for e in events
    ))  # fmt: skip


@lie()
def most_have_no_deadline(events: Events) -> Events:
    ids = {e.get("id") for i, e in enumerate(after(events)) if i % 4}
    return changed(events, lambda e: e.kind.startswith("request.") and e.get("id") in ids, deadline=None)


@lie()
def a_replica_answers_on_and_tells_nothing_of_itself(events: Events) -> Events:
    t = struck(events)
    told = changed(events, lambda e: e.kind == "replica.usage", asked=0)
    return [e for e in told if not (e.kind == "replica.usage" and e.get("replica") == "replica-0" and e.t > t)]


@lie()
def the_load_does_not_count(events: Events) -> Events:
    return changed(events, lambda e: e.kind == "load.ended", requests=None)


@lie()
def nobody_tells_what_was_sent(events: Events) -> Events:
    return [e for e in events if e.kind != "request.sent"]


@lie()
def the_router_tells_of_failures_that_were_answers(events: Events) -> Events:
    answered = {e.get("id") for e in after(events, status=200, what="rank")}
    return changed(events, lambda e: e.kind == "attempt.completed" and e.get("id") in answered, status=500)


@lie()
def the_router_tells_of_another_replica_than_answered(events: Events) -> Events:
    one = next(after(events, replica="replica-0", attempts=1)).get("id")
    return changed(events, lambda e: e.kind == "attempt.completed" and e.get("id") == one, replica="replica-2")


@lie("unbroken-stream")
def a_copy_is_not_used(events: Events) -> Events:
    return changed(events, lambda e: e.kind == "session.resumed", computed=60)


@lie()
def half_of_what_was_sent_is_not_told(events: Events) -> Events:
    return without(events, {e.get("id") for e in list(after(events))[::2]}, "request.sent")


@lie()
def streams_are_not_compared(events: Events) -> Events:
    return changed(events, lambda e: e.kind == "request.completed" and e.get("what") == "generate", right=None)


@lie()
def answers_of_one_replica_are_not_compared(events: Events) -> Events:
    return changed(events, lambda e: e.kind == "request.completed" and e.get("replica") == "replica-2", right=None)


@lie()
def answers_do_not_tell_their_generation(events: Events) -> Events:
    ids = {e.get("id") for i, e in enumerate(after(events)) if i % 5}
    return changed(events, lambda e: e.kind == "request.completed" and e.get("id") in ids, generation=None, digest=None)


@lie()
def streams_do_not_tell_what_was_repeated(events: Events) -> Events:
    return changed(events, lambda e: e.get("what") == "generate", repeated=None)


@lie()
def a_session_is_said_to_come_back_from_where_it_was_not_kept(events: Events) -> Events:
    return [e for e in events if not (e.kind == "kv.written" and e.get("replica") == "replica-1")]


@lie()
def attempts_at_a_dead_one_are_not_told(events: Events) -> Events:
    """They wait there for ever, and their clients give up."""
    ids = {e.get("id") for e in list(after(events, 1.5, 2.0, what="rank"))[::4]}
    events = without(events, ids, "attempt.completed")
    return changed(
        events, lambda e: e.kind == "request.completed" and e.get("id") in ids, status=0, error="closed", right=None,
        attempts=None, replica=None,
    )  # fmt: skip


@pytest.mark.parametrize("name", LIES)
def test_a_lie_is_noticed(name: str) -> None:
    change, red = LIES[name]
    events = change(list(good().events))
    found = outcomes(events)
    noticed = [check for check, outcome in found.items() if outcome is not Outcome.PASS]
    assert noticed
    assert not red or {check for check in noticed if found[check] is Outcome.FAIL} & set(red)
