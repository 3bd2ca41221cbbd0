"""The stages by themselves, in virtual time: exact moments, exact sizes, and dice that can be thrown again."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable
from random import Random
from typing import Any, cast

import pytest

from chaos.toxiproxy.toxic import End, Stage, Value
from chaos.toxiproxy.toxics import kinds


class Clock:
    """The little of a loop that stages use; time goes on only when a test says so."""

    def __init__(self) -> None:
        self._at = 100.0
        self._due: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._order = itertools.count()

    def get_debug(self) -> bool:
        return False

    def time(self) -> float:
        return self._at

    def call_later(self, delay: float, callback: Callable[..., Any], *args: Any) -> asyncio.TimerHandle:
        return self.call_at(self._at + delay, callback, *args)

    def call_at(self, when: float, callback: Callable[..., Any], *args: Any) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, cast(Any, self))
        heapq.heappush(self._due, (when, next(self._order), handle))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        pass

    def advance(self, seconds: float) -> None:
        until = self._at + seconds
        while self._due and self._due[0][0] <= until:
            when, _, handle = heapq.heappop(self._due)
            if not handle.cancelled():
                self._at = max(self._at, when)
                handle._run()
        self._at = until


class Bench:
    """A stage between a test and what it passes on; it is the stage's line and its receiver."""

    def __init__(self, kind: str, /, **values: Value) -> None:
        cls = kinds()[kind]
        seed = values.pop("seed", "seed")
        self.loop: Any = Clock()
        self.values: dict[str, Value] = {a.name: a.default for a in cls.attributes} | values
        self.stage = cls("toxic", self.values, Random(seed), self)
        self.stage.next = self
        self.out: list[tuple[float, bytes | End]] = []
        self.first_hits = 0
        self.blamed = False
        self.stage.start()

    def feed(self, data: bytes) -> None:
        self.out.append((round(self.loop.time() - 100, 6), data))

    def finish(self, end: End) -> None:
        self.out.append((round(self.loop.time() - 100, 6), end))

    def wake(self) -> None:
        pass

    def hit(self, stage: Stage) -> None:
        self.first_hits += 1

    def blame(self, stage: Stage) -> None:
        self.blamed = True

    def pieces(self) -> list[bytes]:
        return [item for _, item in self.out if isinstance(item, bytes)]

    def moments(self) -> list[float]:
        return [moment for moment, _ in self.out]


def test_latency_is_a_delay_line_and_not_a_queue() -> None:
    bench = Bench("latency", latency=200)
    for _ in range(10):
        bench.stage.feed(b"x")
        bench.loop.advance(0.02)
    bench.stage.finish(End.EOF)
    bench.loop.advance(1)
    assert bench.moments() == pytest.approx([0.2 + 0.02 * n for n in range(10)] + [0.38])
    assert bench.out[-1][1] is End.EOF
    assert (bench.first_hits, bench.stage.hits, bench.stage.bytes) == (1, 10, 10)


def test_a_latency_of_nothing_is_no_hit() -> None:
    bench = Bench("latency")
    bench.stage.feed(b"x")
    assert bench.out == [(0.0, b"x")]
    assert bench.stage.hits == 0


def test_jitter_stays_within_its_bounds_and_keeps_the_order() -> None:
    bench = Bench("latency", latency=20, jitter=10)
    for number in range(200):
        bench.stage.feed(bytes([number]))
        bench.loop.advance(0.05)
    bench.loop.advance(1)
    delays = [moment - 0.05 * number for number, moment in enumerate(bench.moments())]
    assert bench.pieces() == [bytes([number]) for number in range(200)]
    assert 0.0099 < min(delays) < 0.012
    assert 0.028 < max(delays) < 0.0301


def test_jitter_is_the_same_with_the_same_dice_and_another_with_others() -> None:
    def moments(seed: str) -> list[float]:
        bench = Bench("latency", seed=seed, latency=20, jitter=10)
        for _ in range(20):
            bench.stage.feed(b"x")
            bench.loop.advance(0.1)
        return bench.moments()

    assert moments("a") == moments("a") != moments("b")


@pytest.mark.parametrize("rate", [1, 100, 10_000, 1_000_000])
def test_bandwidth_takes_the_time_that_its_rate_says(rate: int) -> None:
    bench = Bench("bandwidth", rate=rate)
    data = bytes(range(250)) * rate  # 250 ms
    for at in range(0, len(data), 32768):
        bench.stage.feed(data[at : at + 32768])
    bench.stage.finish(End.EOF)
    bench.loop.advance(1)
    assert b"".join(bench.pieces()) == data
    assert bench.moments()[-1] == pytest.approx(0.25)
    assert max(map(len, bench.pieces())) <= max(1, rate * 100)


def test_bandwidth_keeps_its_rate_when_timers_are_late() -> None:
    bench = Bench("bandwidth", rate=100)
    for _ in range(10):
        bench.stage.feed(bytes(1000))  # 10 ms each
    bench.loop._at += 0.055  # the process did not run
    bench.loop.advance(0.0)
    assert len(bench.out) == 5
    bench.loop.advance(0.0451)
    assert len(bench.out) == 10


def test_bandwidth_saves_nothing_up_while_idle() -> None:
    bench = Bench("bandwidth", rate=100)
    bench.loop.advance(60)
    bench.stage.feed(bytes(1000))
    bench.loop.advance(1)
    assert bench.moments() == [60.01]


def test_a_new_rate_counts_at_once() -> None:
    bench = Bench("bandwidth", rate=0)
    bench.stage.feed(bytes(1000))
    bench.loop.advance(5)
    assert bench.out == []
    bench.values["rate"] = 10
    bench.stage.updated()
    bench.loop.advance(1)
    assert bench.moments() == [5.1]


@pytest.mark.parametrize("kind", ["latency", "bandwidth", "slicer", "packet_loss"])
def test_what_is_held_goes_on_in_order_at_removal_and_no_timer_stays(kind: str) -> None:
    given: dict[str, dict[str, Value]] = {
        "latency": {"latency": 10_000},
        "bandwidth": {"rate": 1},
        "slicer": {"average_size": 1000, "delay": 100_000},
        "packet_loss": {"loss": 99.0},
    }
    bench = Bench(kind, **given[kind])
    data = bytes(range(256)) * 40
    for at in range(0, len(data), 1000):
        bench.stage.feed(data[at : at + 1000])
    bench.stage.finish(End.EOF)
    bench.stage.leave()
    before = len(bench.out)
    assert b"".join(bench.pieces()) == data
    assert bench.out[-1] == (0.0, End.EOF)
    bench.loop.advance(1000)
    assert len(bench.out) == before


@pytest.mark.parametrize("kind", [kind for kind in kinds() if kind != "noop"])
def test_a_closed_connection_hears_nothing_more(kind: str) -> None:
    given: dict[str, Value] = {a.name: 50 for a in kinds()[kind].attributes if isinstance(a.default, int)}
    more: dict[str, Value] = {a.name: 50.0 for a in kinds()[kind].attributes if isinstance(a.default, float)}
    bench = Bench(kind, **given, **more)
    bench.stage.feed(bytes(200_000))
    bench.stage.finish(End.EOF)
    bench.stage.stop()
    before = len(bench.out)
    bench.loop.advance(1000)
    assert len(bench.out) == before


def test_slicer_sizes_are_around_the_average_and_apart() -> None:
    bench = Bench("slicer", average_size=1000, size_variation=300, delay=500)
    data = bytes(range(250)) * 1000
    bench.stage.feed(data)
    bench.stage.finish(End.EOF)
    bench.loop.advance(10)
    sizes = [len(piece) for piece in bench.pieces()]
    assert b"".join(bench.pieces()) == data
    assert min(sizes[:-1]) >= 700
    assert max(sizes) <= 1300
    assert sum(sizes[:-1]) / len(sizes[:-1]) == pytest.approx(1000, rel=0.05)
    gaps = [later - earlier for earlier, later in itertools.pairwise(bench.moments())]
    assert gaps == pytest.approx([0.0005] * len(gaps), abs=1e-5)


def test_slicer_without_delay_still_cuts() -> None:
    bench = Bench("slicer", average_size=100)
    bench.stage.feed(bytes(1000))
    assert [len(piece) for piece in bench.pieces()] == [100] * 10
    assert set(bench.moments()) == {0.0}


def test_an_idle_timeout_is_put_off_by_every_chunk() -> None:
    bench = Bench("timeout", timeout=400)
    for _ in range(9):
        bench.loop.advance(0.15)
        bench.stage.feed(b"x")
    bench.loop.advance(1)
    assert bench.out == [(1.75, End.CUT)]
    assert (bench.stage.bytes, bench.blamed) == (9, True)


def test_an_absolute_timeout_is_not() -> None:
    bench = Bench("timeout", timeout=400, mode="absolute")
    for _ in range(9):
        bench.loop.advance(0.15)
        bench.stage.feed(b"x")
    assert bench.out == [(0.4, End.CUT)]


def test_reset_peer_fires_after_the_first_data_and_drops_it() -> None:
    bench = Bench("reset_peer", timeout=100)
    bench.loop.advance(1)
    bench.stage.feed(b"x")
    bench.loop.advance(0.05)
    bench.stage.feed(b"y")  # does not put it off
    bench.loop.advance(1)
    assert bench.out == [(1.1, End.RESET)]


@pytest.mark.parametrize(("fed", "out"), [(b"", []), (b"x", [(0.0, End.RESET)])])
def test_removal_of_reset_peer_resets_only_what_lost_bytes(fed: bytes, out: list[tuple[float, End]]) -> None:
    bench = Bench("reset_peer", timeout=10_000)
    if fed:
        bench.stage.feed(fed)
    bench.stage.leave()
    assert bench.out == out


def test_limit_data_counts_over_chunks_and_obeys_a_new_limit() -> None:
    bench = Bench("limit_data", bytes=10)
    bench.stage.feed(b"123456")
    bench.values["bytes"] = 8
    bench.stage.feed(b"789abc")
    bench.stage.feed(b"never")
    assert bench.pieces() == [b"123456", b"78"]
    assert bench.out[-1][1] is End.CUT
    assert bench.stage.hits == 1


def test_flips_are_at_the_same_places_however_the_stream_is_cut() -> None:
    data = bytes(100_000)

    def corrupted(cut: int) -> bytes:
        bench = Bench("corrupt", flips_per_mb=500.0)
        for at in range(0, len(data), cut):
            bench.stage.feed(data[at : at + cut])
        return b"".join(bench.pieces())

    whole = corrupted(len(data))
    assert whole == corrupted(1000) == corrupted(7)
    assert 20 < sum(byte.bit_count() for byte in whole) < 90  # 50 are expected


def test_lost_segments_cost_doubling_timeouts() -> None:
    class Rigged(Random):
        """Lost, lost again, then not."""

        throws = iter((0.0, 0.0, 0.9, 0.9))

        def random(self) -> float:
            return next(self.throws)

    bench = Bench("packet_loss", loss=50.0, rto=200)
    bench.stage.dice = Rigged()
    bench.stage.feed(b"x")
    bench.stage.feed(b"y")
    bench.loop.advance(10)
    assert bench.out == [(0.6, b"x"), (0.6, b"y")]
    assert bench.stage.bytes == 1


def test_every_kind_is_found_by_its_file_and_says_what_it_does() -> None:
    assert {"latency", "bandwidth", "slow_close", "timeout", "reset_peer", "slicer", "limit_data", "noop"} <= set(
        kinds()
    )
    for kind in kinds().values():
        assert kind.__doc__
        assert kind is kinds()["noop"] or kind.action != Stage.action
