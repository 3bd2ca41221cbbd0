"""What clients of a serving stack saw over time: latency, errors and degradation, several series to a picture.

A request counts at its intended start, so that what a fault did to it stands under that fault, and not where its client
gave up. Each span shows all of its requests: its quantiles are exact, and its slowest request is a series of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from chaos.history import Event, History
from chaos.report.curves import Curve, curve

_SPAN = 0.25  # seconds, at least
_WIDE = 1.0  # the same, of what is rare
_REFUSED = (400, 429, 503)  # an answer at once: its latency says nothing of those who are served
_REPLICAS = 8  # that are told apart in one picture
_TIERS = ("secondary", "tertiary", "static")

Series = list[tuple[float, float | None]]


class Panel(NamedTuple):
    """Series that share their axes."""

    title: str
    curves: tuple[Curve, ...]  # a curve's title is its name in the legend
    log: bool = False
    unit: str = ""  # `s` or `share`


class Request(NamedTuple):
    """One request of a client, as it ended."""

    begun: float
    latency: float
    event: Event

    @property
    def status(self) -> object:
        return self.event.get("status")


def panels(history: History, columns: int = 200) -> tuple[Panel, ...]:
    """None where no client has asked for anything. A client's own mistakes are left out."""
    found = sorted(_requests(history.of("request.completed")), key=lambda request: request.begun)
    if not found:
        return ()
    spans, wide = _Spans(found, columns, _SPAN), _Spans(found, columns // 4, _WIDE)
    served = [r for r in found if r.status not in _REFUSED]
    rankings = [r for r in served if r.event.get("what") != "generate"]
    streams = [r for r in served if r.event.get("what") == "generate"]
    answered = [r for r in rankings if r.status == 200]
    drawn = (
        Panel("latency of rankings, from their intended start", _latency(spans, rankings), log=True, unit="s"),
        Panel("first token of streams", _first(wide, streams), log=True, unit="s"),
        Panel("requests a second", _rates(spans, found)),
        Panel("requests without an answer", _errors(spans, found), unit="share"),
        Panel("degraded answers, by what gave them", _degraded(spans, answered), unit="share"),
        Panel("attempts a second, by replica", _attempts(spans, history.of("attempt.completed"))),
    )
    return tuple(panel for panel in drawn if panel.curves)


def _requests(events: Iterable[Event]) -> Iterable[Request]:
    for event in events:
        latency = event.get("latency")
        if isinstance(latency, int | float) and 0 <= latency < math.inf and not event.get("wrong"):
            yield Request(event.t - latency, latency, event)


class _Spans:
    """Equal spans of time over all requests."""

    def __init__(self, requests: Sequence[Request], columns: int, least: float) -> None:
        self.begin = requests[0].begun
        self.width = max((requests[-1].begun - self.begin) / columns, least)
        self.count = int((requests[-1].begun - self.begin) / self.width) + 1

    def cut(self, requests: Iterable[Request]) -> list[list[Request]]:
        """The requests of each span."""
        found: list[list[Request]] = [[] for _ in range(self.count)]
        for request in requests:
            found[int((request.begun - self.begin) / self.width)].append(request)
        return found

    def curve(self, name: str, spans: Sequence[list[Request]], value: Callable[[list[Request]], float | None]) -> Curve:
        """`value` of each span; a span without one is a gap."""
        middle = self.begin + self.width / 2
        series: Series = [(middle + i * self.width, value(span)) for i, span in enumerate(spans)]
        return curve(name, series, 4 * self.count) or Curve(name, (), 0.0, 0.0)


def _latency(spans: _Spans, rankings: Sequence[Request]) -> tuple[Curve, ...]:
    return _quantiles(spans, [(r, r.latency) for r in rankings])


def _first(spans: _Spans, streams: Sequence[Request]) -> tuple[Curve, ...]:
    firsts = [(r, r.event.get("first")) for r in streams]
    return _quantiles(spans, [(r, float(first)) for r, first in firsts if isinstance(first, int | float)])


def _quantiles(spans: _Spans, timed: Sequence[tuple[Request, float]]) -> tuple[Curve, ...]:
    if not timed:
        return ()
    times = {id(r.event): t for r, t in timed}
    cut = spans.cut(r for r, _ in timed)

    def at(share: float) -> Callable[[list[Request]], float | None]:
        def value(span: list[Request]) -> float | None:
            ordered = sorted(times[id(r.event)] for r in span)
            return ordered[max(math.ceil(share * len(ordered)) - 1, 0)] if ordered else None

        return value

    return tuple(spans.curve(name, cut, at(share)) for name, share in (("slowest", 1.0), ("p99", 0.99), ("p50", 0.5)))


def _rates(spans: _Spans, requests: Sequence[Request]) -> tuple[Curve, ...]:
    cut = spans.cut(requests)
    if spans.count < 3:
        return ()
    # The last span is cut by the end of the load: its rate would fall for no reason.
    return (
        spans.curve("asked", cut[:-1], lambda span: len(span) / spans.width),
        spans.curve("answered in time", cut[:-1], lambda span: sum(map(_in_time, span)) / spans.width),
    )


def _errors(spans: _Spans, requests: Sequence[Request]) -> tuple[Curve, ...]:
    cut = spans.cut(requests)
    return (
        spans.curve("errors", cut, lambda span: _share(span, lambda r: r.status not in (200, 429))),
        spans.curve("shed", cut, lambda span: _share(span, lambda r: r.status == 429)),
    )


def _degraded(spans: _Spans, answered: Sequence[Request]) -> tuple[Curve, ...]:
    if not answered:
        return ()
    cut = spans.cut(answered)
    tiers = [
        spans.curve(tier, cut, lambda span, tier=tier: _share(span, lambda r: r.event.get("tier") == tier))  # type: ignore[misc]  # mypy knows no default of a lambda
        for tier in _TIERS
    ]
    return (*tiers, spans.curve("primary, not all features live", cut, lambda span: _share(span, _old)))


def _attempts(spans: _Spans, events: Iterable[Event]) -> tuple[Curve, ...]:
    """Where the router sent requests, by the start of each attempt; nothing where that would be too many lines."""
    found: dict[str, list[float]] = {}
    for event in events:
        seconds = event.get("seconds")
        if isinstance(seconds, int | float):
            found.setdefault(str(event.get("replica")), []).append(event.t - seconds)
    if not 0 < len(found) <= _REPLICAS or spans.count < 3:
        return ()
    return tuple(_rate(spans, name, found[name]) for name in sorted(found))


def _rate(spans: _Spans, name: str, moments: Iterable[float]) -> Curve:
    counts = [0] * spans.count
    for moment in moments:
        index = int((moment - spans.begin) / spans.width)
        if 0 <= index < spans.count:
            counts[index] += 1
    series: Series = [(spans.begin + (i + 0.5) * spans.width, n / spans.width) for i, n in enumerate(counts[:-1])]
    return curve(name, series, 4 * spans.count) or Curve(name, (), 0.0, 0.0)


def _share(span: list[Request], which: Callable[[Request], bool]) -> float | None:
    return sum(map(which, span)) / len(span) if span else None


def _in_time(request: Request) -> bool:
    deadline = request.event.get("deadline")
    return request.status == 200 and (not isinstance(deadline, int | float) or request.latency <= deadline)


def _old(request: Request) -> bool:
    used = request.event.get("features")
    live = not isinstance(used, dict) or all(how == "live" for how in used.values())
    return request.event.get("tier") == "primary" and not live
