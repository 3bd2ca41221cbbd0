"""Timeline and charts as SVG elements."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from chaos.report.drawing import Chart, Dot, Shade, Timeline, Track
from chaos.report.markup import Content, Markup, join, tag

_LABELLED = 12  # faults with their name above them

_LEGEND = (
    "A bar is the life of a member, its colour the epoch of the group; dashed red: dead; dotted: gone; dashed blue: "
    "frozen; red frame and shade: the fault; dotted lines: committed generations; dots: events (hover, click)."
)


def link(seq: int, listed: Collection[int], *content: Content) -> Markup:
    """`content` as a link to an event, where that is among those listed."""
    return tag("a", *content, href=f"#e{seq}") if seq in listed else join(content)


def draw_timeline(line: Timeline, listed: Collection[int]) -> Iterator[Markup]:
    """Members over time with faults and key events, and how to read it."""
    yield tag(
        "svg", _grid(line, 26, line.height, labelled=True), _flags(line), _shades(line),
        [_lane(track, listed) for track in line.lanes],
        viewBox=f"0 0 1000 {line.height}", role="img", aria_label="Members over time with faults and key events",
    )  # fmt: skip
    hidden = f" {line.hidden} quieter members are not shown." if line.hidden else ""
    undrawn = f" {line.undrawn} later faults are not drawn." if line.undrawn else ""
    yield tag("p", _LEGEND, hidden, undrawn, class_="soft")


def draw_chart(chart: Chart, line: Timeline) -> Markup:
    """A curve on the axis of the timeline."""
    return tag(
        "svg",
        tag("text", chart.title[:120], class_="name", x=4, y=-4),
        tag("text", chart.high, x=144, y=14, text_anchor="end"),
        tag("text", chart.low, x=144, y=106, text_anchor="end"),
        _grid(line, 4, 106, labelled=False),
        [tag("rect", class_="shade", x=shade.x, width=shade.width, y=4, height=102) for shade in line.shades],
        [_bound(y) for y in chart.bounds],
        [tag("polyline", class_="curve", points=points) for points in chart.lines],
        viewBox="0 -18 1000 134", role="img", aria_label=f"{chart.title} over time",
    )  # fmt: skip


def _grid(line: Timeline, top: float, bottom: float, *, labelled: bool) -> Iterator[Markup]:
    for tick in line.ticks:
        yield tag("line", class_="grid", x1=tick.x, x2=tick.x, y1=top, y2=bottom)
        if labelled:
            yield tag("text", tick.label, x=tick.x, y=22, text_anchor="middle")


def _flags(line: Timeline) -> Iterator[Markup]:
    for flag in line.flags:
        yield tag(
            "g", tag("title", flag.title), tag("line", class_="flag", x1=flag.x, x2=flag.x, y1=28, y2=line.height)
        )


def _shades(line: Timeline) -> Iterator[Markup]:
    for index, shade in enumerate(line.shades):
        area = tag("rect", class_="shade", x=shade.x, width=shade.width, y=12, height=line.height - 12)
        yield tag("g", tag("title", shade.title), area, _label(shade) if index < _LABELLED else None)


def _label(shade: Shade) -> Markup:
    return tag("text", shade.label, class_="fault", x=shade.x, y=9, text_anchor="end" if shade.x > 800 else None)


def _lane(track: Track, listed: Collection[int]) -> Markup:
    name = tag("text", track.name[:22], tag("title", f"{track.name} {track.about}"), class_="name", x=4, y=12)
    boxes = [
        tag("rect", tag("title", box.title), class_=box.style, x=box.x, width=box.width, y=2, height=13, rx=2)
        for box in track.boxes
    ]
    marks = [link(mark.seq, listed, _mark(mark)) for mark in track.marks]
    return tag("g", name, boxes, marks, transform=f"translate(0 {track.y})")


def _mark(mark: Dot) -> Markup:
    return tag("circle", tag("title", mark.title), class_=f"mark {mark.style}", cx=mark.x, cy=8.5, r=3.4)


def _bound(y: float) -> Markup:
    return tag("line", tag("title", "a bound of the hypothesis"), class_="bound", x1=150, x2=990, y1=y, y2=y)
