"""Lines of the event protocol and of logs."""

from __future__ import annotations

import time

import pytest

from chaos.drivers.process.events import Lines, decode, take_line


def test_lines_are_cut_wherever_chunks_end() -> None:
    whole = b"one\ntwo\n\nthree\n"
    for size in range(1, len(whole)):
        lines = Lines(100)
        found = [line for i in range(0, len(whole), size) for line in lines.feed(whole[i : i + size])]
        assert found == [b"one", b"two", b"", b"three"]


@pytest.mark.parametrize("chunk", [1, 7, 64])
def test_of_a_line_that_is_too_long_the_beginning_is_kept_and_the_next_line_is_whole(chunk: int) -> None:
    lines, text = Lines(10), b"x" * 35 + b"\nnext\n"
    found = [line for i in range(0, len(text), chunk) for line in lines.feed(text[i : i + chunk])]
    assert found == [b"x" * 10, b"next"]


def test_a_flood_without_a_line_break_takes_no_memory() -> None:
    lines = Lines(1000)
    for _ in range(1000):
        lines.feed(b"x" * 65536)
    assert len(lines.feed(b"\n")) <= 1
    assert sum(len(value) for value in vars(lines).values() if isinstance(value, bytes)) <= 1000


def test_an_event_may_hold_numbers_that_json_has_no_word_for() -> None:
    message = decode(b'{"k":"step.completed","d":{"loss":NaN,"norm":-Infinity},"t":1.5}')
    assert message.d == {"loss": "NaN", "norm": "-Infinity"}


@pytest.mark.parametrize(
    "line",
    [
        b"", b"{}", b"[]", b"5", b'{"k":""}', b'{"k":"point"}', b'{"k":"a.b","d":[]}', b'{"k":"a.b","t":NaN}',
        b'{"k":"a.b","t":"now"}', b'{"k":7}', b"\xff", b'{"k":"a.b"', b'{"k":"a.b","t":1e300}',
    ],
)  # fmt: skip
def test_what_is_no_event_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - one of several kinds, each with a text of its own
        decode(line)


def test_a_clock_that_runs_ahead_is_refused() -> None:
    with pytest.raises(ValueError, match="monotonic"):
        decode(f'{{"k":"a.b","t":{time.monotonic() + 3600}}}'.encode())


class Sink:
    def __init__(self) -> None:
        self.events: list[tuple[str, str, dict[str, object]]] = []
        self.lines: list[str] = []

    def event(self, source: str, kind: str, data: dict[str, object], t: float | None) -> None:
        self.events.append((source, kind, data))

    def log_line(self, member: str, line: str) -> None:
        self.lines.append(line)


@pytest.mark.parametrize("line", ['{"kind": 5}', '{"kind"', '{"kind": ""}', '"kind"', '{"a": {"kind": "b.c"}}'])
def test_a_printed_line_that_is_no_event_is_a_log_line_alone(line: str) -> None:
    sink = Sink()
    take_line(line.encode(), "a", sink)
    assert (sink.events, sink.lines) == ([], [line])


def test_a_printed_event_is_both() -> None:
    sink = Sink()
    take_line(b'{"kind": "step.completed", "step": 3}', "a", sink)
    assert sink.events == [("a", "step.completed", {"step": 3})]
    assert len(sink.lines) == 1
