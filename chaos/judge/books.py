"""Whether the record of a load is whole and at one with itself: what was not told, no invariant can find."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from chaos.history import Event, History
from chaos.result import Check, Kind
from chaos.serving import ASKED, RACE, Request, Service, service
from chaos.training import few, listed
from chaos.units import counted
from chaos.verdict import Verdict, passed, unknown

_LOST = 0.02  # of the requests, whose record may be lost with a process that is killed or with the end of the run
_FEW = 5  # attempts that may not be told: a router that is killed takes its last ones with it
_QUIET = 3.0  # seconds after which a replica that answers must have told of itself again
_CLOCK = 0.25  # seconds by which the latency that a client tells may differ from its moments


def checks(history: History) -> list[Check]:
    """One check, where the history tells of requests of clients."""
    view = service(history)
    if not any(r.sent or r.completed for r in view.requests.values()):
        return []
    return [Check(name="requests on record", kind=Kind.RUN, verdict=_books(view))]


def _books(view: Service) -> Verdict:
    requests = list(view.requests.values())
    for verdict in _doubts(view, requests):
        return verdict
    ended = sum(r.completed is not None for r in requests)
    attempts = sum(map(len, view.attempts.values()))
    over = view.history.first("load.ended")
    return passed(
        f"{counted(ended, 'request')} and {counted(attempts, 'attempt')}, each told once and without a contradiction",
        (over.seq,) if over else (),
    )


def _doubts(view: Service, requests: Sequence[Request]) -> Iterator[Verdict]:
    """Why nothing follows from this record, the plainest reason first."""
    most = max(1.0, _LOST * len(requests))
    if view.again:
        event = view.again[0]
        first = next(e for e in view.history.of(event.kind, id=event.get("id")))
        how = (
            f" (status {first.get('status')}, then {event.get('status')})" if event.kind == "request.completed" else ""
        )
        verb = "ended" if event.kind == "request.completed" else "was sent"
        yield unknown(f"request {event.get('id')} {verb} more than once{how}", (first.seq, event.seq))
    if tale := _tale(view, requests, most):
        yield tale
    if odd := [r for r in requests if _contradicts(r)]:
        yield unknown(
            f"{counted(len(odd), 'request contradicts itself', 'requests contradict themselves')}: request "
            f"{odd[0].id} {_contradicts(odd[0])}",
            few(odd[0].seqs()),
        )
    told = [r for r in requests if r.completed is not None and r.ended <= view.over]
    unsent = [r for r in told if r.sent is None]
    if any(r.sent for r in requests) and len(unsent) > most:
        yield unknown(f"{counted(len(unsent), 'request')} ended that nobody had sent, on record", few(unsent[0].seqs()))
    ghosts = [r for r in requests if r.sent is None and r.completed is None]
    if any(r.sent for r in requests) and len(ghosts) > most:
        yield unknown(
            f"attempts of {counted(len(ghosts), 'request')} are on record that no client had sent: {ghosts[0].id}",
            few(ghosts[0].seqs()),
        )
    short = [r for r in told if (r.fact("attempts") or 0) > len(r.attempts)]
    if any(view.attempts.values()) and len(short) > most:
        r = short[0]
        yield unknown(
            f"attempts of {counted(len(short), 'request')} are not on record: the answer to {r.id} says that there "
            f"were {r.fact('attempts')}, {len(r.attempts)} are told",
            few(r.seqs()),
        )
    if quiet := _quietly(view) or _silent(view):
        yield quiet


def _quietly(view: Service) -> Verdict | None:
    """Whether replicas were asked more often than the router tells: by what each process said last."""
    last: dict[tuple[str, float], Event] = {}
    for event in view.history.of("replica.usage"):
        replica = str(event.get("replica"))
        life = next((x for x in view.lives.get(replica, ()) if x.alive(event.t)), None)
        if event.get("asked") is not None and event.t <= view.over:
            last[replica, life.started.t if life is not None else 0.0] = event
    for (replica, since), event in last.items():
        asked = event.get("asked")
        told = sum(since <= a.began <= event.t + RACE for a in view.attempts.get(replica, ()))
        untold = sum(not r.attempts and r.began <= event.t for r in view.requests.values())
        if asked > told + untold + max(_FEW, _LOST * told):
            return unknown(
                f"{replica} had been asked {counted(asked, 'time')}, "
                f"{counted(told, 'attempt at it is', 'attempts at it are')} on record: what no router tells cannot be "
                "judged",
                (event.seq,),
            )
    return None


def _silent(view: Service) -> Verdict | None:
    """Whether a replica answers and tells no more how often it was asked, where replicas do."""
    told: dict[str, list[float]] = {}
    for event in view.history.of("replica.usage"):
        if event.get("asked") is not None:
            told.setdefault(str(event.get("replica")), []).append(event.t)
    for replica, attempts in view.attempts.items() if told else ():
        since = max(told.get(replica, ()), default=0.0) + _QUIET
        answered = [a for a in attempts if a.status == 200 and since < a.began < view.over]
        if len(answered) > _FEW:
            return unknown(
                f"{replica} answered {counted(len(answered), 'attempt')} and told nothing of itself any more: how "
                "often it was asked is not known",
                few([a.seq for a in answered]),
            )
    return None


def _tale(view: Service, requests: Sequence[Request], most: float) -> Verdict | None:
    """Whether there are as many as the load itself counted, and as many that came to nothing."""
    over = view.history.first("load.ended")
    if over is None:
        return None
    ended = [r for r in requests if r.completed is not None]
    if over.get("requests") is None:
        return unknown("its load does not tell how many requests it made", (over.seq,))
    counts = {"requests": len(ended), "failures": sum(map(_came_to_nothing, ended))}
    for name, found in counts.items():
        counted = over.get(name)
        if counted is not None and abs(found - counted) > most:
            return unknown(f"{found} {name} are on record, its load counted {counted}", (over.seq,))
    return None


def _came_to_nothing(request: Request) -> bool:
    """As a load counts it: a mistake of its client is to get its 400, anything else a right and whole answer."""
    wanted = 400 if request.wrong else 200
    torn = request.fact("missing") or request.fact("repeated")
    return request.status != wanted or request.fact("right") is False or bool(torn)


def _contradicts(request: Request) -> str:
    """What its two facts say otherwise; empty where they agree."""
    sent, completed = request.sent, request.completed
    if sent is None or completed is None:
        return ""
    if completed.t < sent.t - RACE:
        return f"ended {sent.t - completed.t:.2f} s before it was sent"
    latency = completed.get("latency")
    if latency is not None and abs(completed.t - sent.t - latency) > _CLOCK:
        return f"is told to have taken {latency:.2f} s, and took {completed.t - sent.t:.2f} s"
    if early := [a for a in request.attempts if a.began < sent.t - _CLOCK]:
        return f"was tried {sent.t - early[0].began:.2f} s before it was sent: two members have two clocks"
    if request.status == 200 and request.attempts and (late := request.attempts[-1].ended - completed.t) > _CLOCK:
        return f"was answered {late:.2f} s before its last attempt was over: two members have two clocks"
    if denied := _denied(request):
        return denied
    if other := [name for name in ASKED if _differ(sent, completed, name)]:
        return f"is another one when it ends: {listed(other)}"
    return ""


def _denied(request: Request) -> str:
    """Where its client has an answer, and its router does not tell that of the attempt that must have given it."""
    if request.status != 200 or not request.attempts or (request.fact("attempts") or 0) > len(request.attempts):
        return ""
    last, replica = max(request.attempts, key=lambda a: a.event.get("attempt") or 0), request.fact("replica")
    if last.status != 200:
        return f"was answered, and its last attempt is told to have failed with {last.status}"
    if replica not in (None, last.replica):
        return f"was answered by {replica}, and its last attempt is told to have been at {last.replica}"
    return ""


def _differ(sent: Event, completed: Event, name: str) -> bool:
    values = sent.get(name), completed.get(name)
    return None not in values and values[0] != values[1]
