"""S6: overload is refused early, the least important first, and retries do not make it worse."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from typing import Any, ClassVar, Literal, NamedTuple

from chaos.api import Duration, Invariant, Ratio
from chaos.history import Event, History
from chaos.serving import RACE, Attempt, Request, Service, service
from chaos.training import few
from chaos.units import counted
from chaos.verdict import Outcome, Verdict, failed, passed, unknown

_RANKS = {"high": 2, "normal": 1, "low": 0}
_ENOUGH = 20  # requests in a window, for a share of them to mean something
_LOST = 0.05  # of the refusals, whose record may be lost with the end of the run


class _Judged(NamedTuple):
    said: str
    seqs: list[int]


class ShedNotAmplify(Invariant, frozen=True, kw_only=True):
    """Requests that cannot be served are refused early and by priority; one request makes few attempts.

    Judged from `request.shed`, `attempt.completed` and what clients saw. Of an overload (something was shed, or the
    deadline ended what nobody refused; not what its client kept back until then, nor while a fault stood): at most the
    share `late` of the requests meanwhile ends by its deadline, and no more are refused only after the share `early`
    of it has passed; no request is shed while one of lower priority waits, that is served afterwards (more
    than the share `inverted` of them). Of retries: no request is tried more than `attempts` times, and in no `window`
    are there more than `amplification` attempts for each request; a refusal by one that drains is none. Of misses
    (`features.rebuilt`): no replica asks the source again for what it is already asking for (more than the share
    `inverted` of the times).
    `judge` names what must have been there: an overload, retries, or misses.
    """

    id: ClassVar[str] = "S6"
    needs: ClassVar[tuple[str, ...]] = ("request.completed", "request.shed", "attempt.completed")
    early: Ratio = 0.5
    late: Ratio = 0.05
    inverted: Ratio = 0.02
    attempts: int = 3
    amplification: float = 1.5
    window: Duration = 2.0
    judge: Literal["any", "overload", "retries", "misses"] = "any"

    def check(self, history: History) -> Verdict:
        view = service(history)
        sides = {"overload": self._overload(view), "retries": self._retries(view), "misses": self._misses(view)}
        found = [side for side in sides.values() if isinstance(side, _Judged)]
        settled = [side for side in sides.values() if isinstance(side, Verdict)]
        for outcome in (Outcome.FAIL, Outcome.UNKNOWN):
            for verdict in settled:
                if verdict.outcome is outcome:
                    return verdict
        missing = [name for name, side in sides.items() if side is None]
        if self.judge in missing or not found:
            wanted = self.judge if self.judge in missing else "overload, nor retries, nor misses"
            said = f" ({found[0].said})" if found else ""
            return unknown(f"there was no {wanted}{said}", few(found[0].seqs) if found else ())
        return passed("; ".join(f.said for f in found), few([s for f in found for s in f.seqs]))

    # --- overload

    def _overload(self, view: Service) -> Verdict | _Judged | None:
        shed = [r for r in view.requests.values() if r.shed is not None or r.status == 429]
        slow = [r for r in view.ended() if _ran_out(r) and not self._came_late(r) and not _broken(view, r)]
        if not shed and len(slow) <= self.late * max(len(view.requests), 1):
            return None
        moments = [r.ended if r.completed else r.began for r in (*shed, *slow)]
        first, last = min(moments), max(moments)
        meanwhile = [r for r in view.requests.values() if r.ended >= first and r.began <= last and not r.unsent]
        if len(slow) > self.late * len(meanwhile):
            return failed(
                f"{len(slow)} of {counted(len(meanwhile), 'request')} were not refused and ended by their deadlines, "
                f"from {first:.1f} s to {last:.1f} s; {self.late:.0%} are allowed",
                few([s for r in slow[:6] for s in r.seqs()]),
            )
        return (
            self._late_refusal(shed, len(meanwhile))
            or self._inversion(view, shed)
            or _untold(view, shed)
            or _Judged(
                f"{len(shed)} of {counted(len(meanwhile), 'request was', 'requests were')} shed early "
                f"({_counted(shed)}), {len(slow)} ran out of time",
                [s for r in shed[:4] for s in r.seqs()],
            )
        )

    def _came_late(self, request: Request) -> bool:
        """Whether its client had kept it back for so long that nobody could have refused it early."""
        waited = 0.0 if request.arrived is None else request.arrived - request.began
        return request.unsent or waited > self.early * float(request.fact("deadline") or float("inf"))

    def _late_refusal(self, shed: list[Request], meanwhile: int) -> Verdict | None:
        late = [r for r in shed if _refused_after(r) > self.early * float(r.fact("deadline") or float("inf"))]
        if len(late) <= self.late * meanwhile:
            return None
        worst = max(late, key=_refused_after)
        return failed(
            f"{len(late)} of {counted(len(shed), 'refusal')} came late, among {counted(meanwhile, 'request')}: "
            f"request {worst.id} was told after {_refused_after(worst):.2f} s, its deadline was "
            f"{worst.fact('deadline'):g} s",
            few(worst.seqs()),
        )

    def _inversion(self, view: Service, shed: list[Request]) -> Verdict | None:
        """Served from the queue although somebody more important was sent away while they waited."""
        waits = [
            (a.began - a.queued, a.began, r)
            for r in view.requests.values()
            if r.status == 200 and r.attempts and (a := r.attempts[0]).queued is not None
        ]
        waits.sort(key=lambda w: w[1])
        starts = [w[1] for w in waits]
        longest = max((began - since for since, began, _ in waits), default=0.0)
        wronged: list[tuple[Request, Request]] = []
        important = [r for r in shed if r.shed is not None and _rank(r) > 0]
        for request in important:
            assert request.shed is not None
            t = request.shed.t
            at = range(bisect_left(starts, t), bisect_right(starts, t + longest))
            waiting = (other for since, _, other in (waits[i] for i in at) if since <= t - RACE)
            if (other := next((o for o in waiting if _before(o, request)), None)) is not None:
                wronged.append((request, other))
        if not wronged or len(wronged) <= self.inverted * len(important):
            return None
        request, other = wronged[0]
        return failed(
            f"{counted(len(wronged), 'request was', 'requests were')} shed while less important ones waited and were "
            f"served: {request.id} ({request.fact('priority')}) was, {other.id} ({other.fact('priority')}) was not",
            few([*request.seqs(), *other.seqs()]),
        )

    # --- retries

    def _retries(self, view: Service) -> Verdict | _Judged | None:
        for request in view.requests.values():
            if (claimed := request.fact("attempts") or 0) - sum(a.draining for a in request.attempts) > self.attempts:
                return failed(
                    f"request {request.id} was tried {counted(claimed, 'time')}, as its answer says; {self.attempts} "
                    "are allowed",
                    few(request.seqs()),
                )
        tried = [(r, [a for a in r.attempts if not a.draining]) for r in view.requests.values()]
        again = [(r, attempts) for r, attempts in tried if len(attempts) > 1]
        if not again:
            return None
        most, attempts = max(again, key=lambda pair: len(pair[1]))
        if len(attempts) > self.attempts:
            return failed(
                f"request {most.id} was tried {counted(len(attempts), 'time')}; {self.attempts} are allowed",
                few(most.seqs()),
            )
        ratio, shown = self._worst([a for _, attempts in tried for a in attempts])
        if ratio > self.amplification:
            return failed(
                f"{ratio:.2f} attempts for each request within {self.window:g} s; {self.amplification:g} are allowed",
                few([a.seq for a in shown]),
            )
        worst = f", {ratio:.2f} attempts a request in the worst {self.window:g} s" if shown else ""
        said = (
            f"{counted(len(again), 'request was', 'requests were')} tried again, at most "
            f"{counted(len(attempts), 'time')}{worst}"
        )
        return _Judged(said, [s for r, _ in again[:3] for s in r.seqs()])

    def _misses(self, view: Service) -> Verdict | _Judged | None:
        """Of a cache that has lost its contents: who fetches what."""
        rebuilt = [e for e in view.history.of("features.rebuilt") if e.t <= view.over]
        if not rebuilt:
            return None
        until: dict[tuple[Any, Any], Event] = {}
        twice: list[tuple[Event, Event]] = []
        for event in sorted(rebuilt, key=lambda e: e.t):
            key = event.get("replica"), event.get("user")
            if (before := until.get(key)) is not None and event.t - float(event.get("seconds") or 0.0) < before.t:
                twice.append((before, event))
            until[key] = event
        if len(twice) > self.inverted * len(rebuilt):
            before, event = twice[0]
            return failed(
                f"{len(twice)} of {counted(len(rebuilt), 'time')} a replica asked the source for what it was already "
                f"asking for: {event.get('replica')} for user {event.get('user')}",
                (before.seq, event.seq),
            )
        return _Judged(f"{counted(len(rebuilt), 'miss', 'misses')}, each fetched once", [e.seq for e in rebuilt[:4]])

    def _worst(self, attempts: list[Attempt]) -> tuple[float, list[Attempt]]:
        """The most attempts a request among those that began within any window, with those of that window."""
        attempts.sort(key=lambda a: a.began)
        ids: Counter[object] = Counter()
        worst, shown, start = 0.0, (0, 0), 0
        for end, attempt in enumerate(attempts):
            ids[attempt.request] += 1
            while attempt.began - attempts[start].began > self.window:
                gone = attempts[start].request
                ids[gone] -= 1
                if not ids[gone]:
                    del ids[gone]
                start += 1
            ratio = (end - start + 1) / len(ids)
            if ratio > worst and len(ids) >= _ENOUGH:
                worst, shown = ratio, (start, end + 1)
        return worst, attempts[shown[0] : shown[1]]


def _untold(view: Service, shed: list[Request]) -> Verdict | None:
    """Without who was shed when, and who waited meanwhile, nobody can say that the least important left first."""
    silent = [r for r in shed if r.shed is None]
    if len(silent) > _LOST * len(shed):
        return unknown(
            f"{len(silent)} of {counted(len(shed), 'refusal is', 'refusals are')} not on record", few(silent[0].seqs())
        )
    if shed and not any(a.queued is not None for attempts in view.attempts.values() for a in attempts):
        return unknown("nobody tells how long requests waited, so the order in which they were shed is not known")
    return None


def _ran_out(request: Request) -> bool:
    """Whether its deadline ended it, rather than a refusal or a failure."""
    return not request.wrong and (request.status == 504 or request.fact("error") == "timeout")


def _broken(view: Service, request: Request) -> bool:
    """Whether a fault stood meanwhile: what cannot be served is not too much then."""
    return any(
        f.injecting.t <= request.ended and request.began <= f.stands(view.over) for f in view.faults if not f.instant
    )


def _refused_after(request: Request) -> float:
    """Seconds from when the router had it to its refusal."""
    if request.completed is not None and request.status == 429:
        return request.ended - (request.began if request.arrived is None else request.arrived)
    return float(request.shed.get("waited") or 0.0) if request.shed else 0.0


def _rank(request: Request) -> int:
    return _RANKS.get(request.fact("priority"), 1)


def _before(other: Request, request: Request) -> bool:
    """Whether the other one, that is served, should have been shed in its place: it is less important, and, where time
    was running out, had no more of it."""
    if _rank(other) >= _rank(request):
        return False
    if request.shed is None or request.shed.get("reason") != "deadline":
        return True
    ends = [r.began + float(r.fact("deadline") or 0.0) for r in (other, request)]
    return ends[0] <= ends[1]


def _counted(shed: list[Request]) -> str:
    counts = Counter(r.fact("priority") or "normal" for r in shed)
    return ", ".join(f"{counts[name]} {name}" for name in ("low", "normal", "high") if counts[name])
