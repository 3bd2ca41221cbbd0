"""Whether the moments on record are moments: by when the harness heard of each fact, which no member can say."""

from __future__ import annotations

from collections.abc import Iterator

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
    told: dict[str, list[tuple[float, Event]]] = {}
    for event in history:
        if not event.source.startswith(_OWN):
            told.setdefault(event.source, []).append((event.wall - event.t - offset, event))
    for source, facts in told.items():
        least, event = min(facts, key=lambda fact: fact[0])
        if least < -_PROMPT:
            yield unknown(
                f"{event.kind} of {source} is said to have happened {-least:.1f} s after it was heard of: nothing can "
                "be timed by it",
                (event.seq,),
            )
        if least > _SLOW and len(facts) >= _FACTS:
            yield unknown(
                f"all that {source} tells is said to have happened {least:.1f} s or more before it was heard of: "
                "nothing can be timed by it",
                few([event.seq for _, event in facts]),
            )
    roster, faults = Roster(history), strikes(history)
    for source, facts in told.items():
        if any(source in roster.hit(fault) for fault in faults):
            continue
        for delay, event in facts:
            if delay <= _LATE or event.kind.startswith(_KEPT):
                continue
            prompt = [e for other in told.values() for d, e in other if d < _PROMPT and event.t < e.t < event.t + delay]
            if prompt:
                yield unknown(
                    f"{event.kind} of {source} is said to have happened {delay:.1f} s before it was heard of, while "
                    "others were heard of at once: nothing can be timed by it",
                    few([*(e.seq for e in prompt[:1]), event.seq]),
                )
