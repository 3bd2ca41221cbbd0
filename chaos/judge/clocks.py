"""Whether the moments on record are moments: by when the harness heard of each fact, which no member can say."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from chaos.history import Event, History
from chaos.result import Check, Kind
from chaos.statistics import median
from chaos.training import Roster, few, strikes
from chaos.verdict import Verdict, unknown

_PROMPT = 0.2  # seconds after which most facts are heard of, at the most
_SLOW = 1.0  # whose every fact is heard of later than that has another clock …
_FACTS = 5  # … if there are that many of them
_LATE = 2.0  # a fact that comes later than that had been frozen with who told it, or never happened then
_OWN = ("harness", "fault:", "probe:")
_KEPT = ("request.",)  # what clients tell of once they know all of it, with the moment at which it was


def checks(history: History) -> list[Check]:
    """One check where somebody's moments cannot be; none where they can."""
    verdict = next(_doubts(history), None)
    return [] if verdict is None else [Check(name="clocks", kind=Kind.RUN, verdict=verdict)]


def _doubts(history: History) -> Iterator[Verdict]:
    own = [e.wall - e.t for e in history if e.source == "harness"]
    if not own or max(own) - min(own) > _PROMPT:  # somebody set the clock of the machine meanwhile
        return
    offset = median(own)
    least: dict[str, tuple[float, Event]] = {}
    late: list[tuple[float, Event]] = []
    for event in history:
        source, delay = event.source, event.wall - event.t - offset
        if source.startswith(_OWN):
            continue
        if source not in least or delay < least[source][0]:
            least[source] = delay, event
        if delay > _LATE and not event.kind.startswith(_KEPT):
            late.append((delay, event))
    for source, (delay, event) in least.items():
        if delay < -_PROMPT:
            yield unknown(
                f"{event.kind} of {source} is said to have happened {-delay:.1f} s after it was heard of: nothing can "
                "be timed by it",
                (event.seq,),
            )
        if delay > _SLOW and len(facts := [e.seq for e in history if e.source == source]) >= _FACTS:
            yield unknown(
                f"all that {source} tells is said to have happened {delay:.1f} s or more before it was heard of: "
                "nothing can be timed by it",
                few(facts),
            )
    yield from _after_others(history, late, offset)


def _after_others(history: History, late: Sequence[tuple[float, Event]], offset: float) -> Iterator[Verdict]:
    """Facts that came late while others came at once, of somebody whom no fault held up."""
    if not late:
        return
    roster, faults = Roster(history), strikes(history)
    others = (e for e in history if not e.source.startswith(_OWN) and e.wall - e.t - offset < _PROMPT)
    prompt = sorted(others, key=_moment)
    struck: dict[str, bool] = {}
    for delay, event in late:
        source = event.source
        if source not in struck:
            struck[source] = any(source in roster.hit(fault) for fault in faults)
        place = bisect_right(prompt, event.t, key=_moment)
        if not struck[source] and place < len(prompt) and prompt[place].t < event.t + delay:
            yield unknown(
                f"{event.kind} of {source} is said to have happened {delay:.1f} s before it was heard of, while "
                "others were heard of at once: nothing can be timed by it",
                few([prompt[place].seq, event.seq]),
            )


def _moment(event: Event) -> float:
    return event.t
