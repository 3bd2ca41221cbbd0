"""S9: only committed generations are served, and never an older one again."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from chaos.api import Duration, Invariant
from chaos.history import Event, History
from chaos.serving import RACE, Request, service
from chaos.training import few, generations_before
from chaos.units import counted
from chaos.verdict import Verdict, failed, passed, unknown

_TOLD = 0.95  # of the answers must tell their generation


class ServedGeneration(Invariant, frozen=True, kw_only=True):
    """Every answer comes from a generation that was committed before; what is served never goes back.

    Judged from `checkpoint.committed`, `replica.ready` and the generation and digest of each answer. A replica never
    becomes ready with an older generation than before, and as a new process with none but the newest that was committed
    when it began to load and that nobody found damaged; it gives no older answers to requests that began later, and the
    replicas together give none once `within` has passed since a newer one was served. A session may stay with the
    generation of its first turn. Weights are told by their digest, which is that of the commit: other ones under the
    same number were never committed. Most answers must tell their generation. With `newer: required` a run in which
    only one generation was served is unknown.
    """

    id: ClassVar[str] = "S9"
    needs: ClassVar[tuple[str, ...]] = ("checkpoint.committed", "replica.ready", "request.completed")
    within: Duration = 10.0
    newer: Literal["required", "optional"] = "optional"

    def check(self, history: History) -> Verdict:
        all_ = [r for r in service(history).ended() if r.status == 200]
        answers = [r for r in all_ if r.fact("generation") is not None]
        answers.sort(key=lambda r: r.ended)
        free = _free(answers)
        commits: dict[Any, Event] = {}
        for event in history.of("checkpoint.committed"):
            commits.setdefault(event.get("generation"), event)
        ready = [e for e in history.of("replica.ready") if e.get("generation") is not None]
        broken = (
            self._uncommitted(commits, ready, answers)
            or _went_back(ready)
            or _old_start(history)
            or _other_weights(commits, ready, answers)
            or _older_answer(ready, free)
            or self._behind(free)
        )
        if broken:
            return broken
        if not answers:
            return unknown("no answer says which generation gave it")
        if len(answers) < _TOLD * len(all_):
            bare = next(r for r in all_ if r.fact("generation") is None)
            said = f"{len(all_) - len(answers)} of {counted(len(all_), 'answer')} do not say which generation gave them"
            return unknown(said, few(bare.seqs()))
        served = sorted({r.fact("generation") for r in answers})
        ends = [r.completed.seq for g in served for r in _first_and_last(answers, g) if r.completed]
        seqs = few([*(commits[g].seq for g in served), *(e.seq for e in ready), *ends])
        if len(served) > 1:
            return passed(
                f"{counted(len(answers), 'answer')} of generations {served}, each committed, never an older one", seqs
            )
        said = f"{counted(len(answers), 'answer')}, all of generation {served[0]}: nothing could go back"
        return unknown(said, seqs) if self.newer == "required" else passed(said, seqs)

    def _uncommitted(self, commits: dict[Any, Event], ready: list[Event], answers: list[Request]) -> Verdict | None:
        told = [(e.get("generation"), e.t, e.seq, f"{e.get('replica')} was ready with") for e in ready]
        for request in answers:
            event = request.completed
            assert event is not None
            told.append((event.get("generation"), event.t, event.seq, f"request {request.id} was answered from"))
        for generation, t, seq, what in sorted(told, key=lambda x: x[2]):
            commit = commits.get(generation)
            if commit is None or commit.t > t + RACE:
                when = "was never committed" if commit is None else f"was committed {commit.t - t:.2f} s later"
                seqs = sorted((seq, *([commit.seq] if commit else [])))
                return failed(f"{what} generation {generation}, which {when}", seqs)
        return None

    def _behind(self, answers: list[Request]) -> Verdict | None:
        """An old answer although others have long given newer ones."""
        first: dict[Any, Request] = {}
        newest: Any = None
        for request in answers:
            generation = request.fact("generation")
            first.setdefault(generation, request)
            newest = generation if newest is None else max(newest, generation)
            if generation < newest and request.began > first[newest].ended + self.within:
                return failed(
                    f"request {request.id} was answered by {request.fact('replica')} from generation {generation} "
                    f"{request.ended - first[newest].ended:.1f} s after generation {newest} was first served",
                    few([*first[newest].seqs(), *request.seqs()]),
                )
        return None


def _went_back(ready: list[Event]) -> Verdict | None:
    newest: dict[Any, Event] = {}
    for event in ready:
        replica = event.get("replica")
        before = newest.get(replica)
        if before is not None and event.get("generation") < before.get("generation"):
            return failed(
                f"{replica} went back from generation {before.get('generation')} to {event.get('generation')}",
                (before.seq, event.seq),
            )
        newest[replica] = event
    return None


def _old_start(history: History) -> Verdict | None:
    """A new process that serves something else than the newest whole generation."""
    firsts = [x.ready for lives in service(history).lives.values() for x in lives if x.ready is not None]
    for ready in sorted(firsts, key=lambda e: e.seq):
        loading = history.last("replica.loading", before=ready.seq, replica=ready.get("replica"))
        since = loading.t if loading is not None else ready.t
        ((_, good),) = generations_before(history, [ready.seq])
        newer = [e for g, e in good.items() if g > (ready.get("generation") or 0) and e.t < since - RACE]
        if newer:
            newest = max(newer, key=lambda e: e.get("generation"))
            return failed(
                f"{ready.get('replica')} started with generation {ready.get('generation')}, though "
                f"{newest.get('generation')} had been committed {since - newest.t:.1f} s before it began to load",
                sorted((newest.seq, ready.seq)),
            )
    return None


def _other_weights(commits: dict[Any, Event], ready: list[Event], answers: list[Request]) -> Verdict | None:
    """What is served under the number of a generation is not what was committed under it."""
    served = [*ready, *(r.completed for r in answers if r.completed is not None)]
    for event in sorted(served, key=lambda e: e.seq):
        commit = commits.get(event.get("generation"))
        digests = event.get("digest"), commit.get("digest") if commit else None
        if commit is not None and None not in digests and digests[0] != digests[1]:
            return failed(
                f"{event.get('replica')} serves other weights as generation {event.get('generation')} than were "
                "committed",
                sorted((commit.seq, event.seq)),
            )
    return None


def _free(answers: list[Request]) -> list[Request]:
    """Without later turns of sessions that stay with the generation of their first one."""
    first: dict[Any, Any] = {}
    free = []
    for request in sorted(answers, key=lambda r: r.began):
        session, generation = request.fact("session"), request.fact("generation")
        if session is not None and first.get(session) == generation:
            continue
        if session is not None:
            first.setdefault(session, generation)
        free.append(request)
    return sorted(free, key=lambda r: r.ended)


def _older_answer(ready: list[Event], answers: list[Request]) -> Verdict | None:
    """An answer from an older generation than the one with which that replica was ready when it was asked."""
    switches: dict[Any, list[Event]] = {}
    for event in ready:
        switches.setdefault(event.get("replica"), []).append(event)
    for request in answers:
        # A stream goes on elsewhere with the weights that it began with.
        mine = [a for a in request.attempts if request.stream or a.replica == request.fact("replica")]
        began = mine[0 if request.stream else -1].began if mine else request.began
        before = [e for e in switches.get(request.fact("replica"), ()) if e.t < began - RACE]
        if before and request.fact("generation") < before[-1].get("generation"):
            return failed(
                f"{request.fact('replica')} answered request {request.id} from generation "
                f"{request.fact('generation')}, {began - before[-1].t:.2f} s after it was ready with "
                f"{before[-1].get('generation')}",
                few([before[-1].seq, *request.seqs()]),
            )
    return None


def _first_and_last(answers: list[Request], generation: Any) -> list[Request]:
    mine = [r for r in answers if r.fact("generation") == generation]
    return [mine[0], mine[-1]]
