"""What the page's script draws: nothing that matters is thinned away, and the data says what was."""

from __future__ import annotations

from itertools import pairwise

import msgspec

from chaos.history import Event, History
from chaos.report.picture import charts, chosen, picture
from chaos.report.render import embedded

from .scripted import Script, partition_run, serving_run


def long_history(count: int) -> History:
    tell = Script()
    for i in range(count):
        tell(i / 100, f"w{i % 4}", "step.completed", step=i, rank=i % 4, loss=str(1 + (i == count // 3)), samples=[i])
    tell(count / 100, "harness", "run.ended", reason="finished")
    return History(tell.events)


def test_a_short_run_is_there_with_all_its_events() -> None:
    events = partition_run()
    drawn = picture(History(events), [], {})
    assert [event[0] for event in drawn["events"]] == [e.seq for e in events]
    assert drawn["chosen"] == ""
    kinds = dict(drawn["kinds"])
    assert kinds["step.completed"] == sum(e.kind == "step.completed" for e in events)


def test_of_a_long_run_all_that_is_wanted_is_there_and_the_rest_evenly() -> None:
    history = long_history(100_000)
    wanted = [77, 50_001, 99_998]
    rows, how = chosen(history, wanted)
    seqs = [row[0] for row in rows]
    assert set(wanted) | {0, len(history) - 1} <= set(seqs)
    assert "all evidence" in how
    assert seqs == sorted(set(seqs))
    assert max(b - a for a, b in pairwise(seqs)) < 100
    assert sum(len(row[1].encode()) + len(row[2].encode()) for row in rows) < 500_000


def test_every_mark_has_its_event() -> None:
    drawn = picture(History(partition_run()), [], {})
    known = {event[0] for event in drawn["events"]}
    assert drawn["marks"]
    assert {seq for _, seq, _ in drawn["marks"]} | {band["seq"] for band in drawn["bands"]} <= known
    assert all(0 <= row < len(drawn["lanes"]) for row, _, _ in drawn["marks"])


def test_a_fault_lies_over_the_lanes_that_it_hits() -> None:
    drawn = picture(History(partition_run()), [], {})
    (band,) = drawn["bands"]
    assert [drawn["lanes"][row]["name"] for row in band["lanes"]] == ["worker-n2"]
    assert (band["begin"], band["end"], band["healed"]) == (6.1, 10.0, True)


def test_an_extreme_among_many_is_drawn_and_told() -> None:
    (loss,) = (c for c in charts(long_history(100_000), {}) if c["title"] == "loss")
    values = [v for layer in loss["layers"] for piece in layer["pieces"] for v in piece[1::2]]
    assert max(values) == 2.0
    assert loss["kept"] == len(values) < loss["count"] == 100_000
    assert "highest 2 at 333.3 s" in loss["told"]


def test_many_curves_share_the_room() -> None:
    tell = Script()
    for i in range(80_000):
        tell(i / 100, f"probe:p{i % 8}", "probe.sampled", value=float(i * 7919 % 1000))
    found = charts(History(tell.events), {})
    assert len(found) == 8
    assert sum(c["kept"] for c in found) <= 24_000
    assert len(embedded(found)) < 500_000


def test_the_series_of_a_service_keep_their_units() -> None:
    found = {c["title"]: c for c in charts(History(serving_run()), {})}
    latency = found["latency of rankings, from their intended start"]
    assert (latency["unit"], latency["log"]) == ("s", True)
    assert [layer["name"] for layer in latency["layers"]] == ["slowest", "p99", "p50"]
    assert "slowest: lowest 10 ms" in latency["told"]


def test_the_data_cannot_end_its_element() -> None:
    text = embedded({"a": "</script><!--<script>"})
    assert "<" not in text
    assert msgspec.json.decode(text) == {"a": "</script><!--<script>"}


def test_fields_of_any_kind_can_be_embedded() -> None:
    odd: list[object] = [None, float("nan"), 10**30, "\ud800", ["\ud800"], {"x": "\ud800"}, True]
    tell = Script()
    for value in odd:
        tell(1.0, "store", "checkpoint.committed", generation=value, step=value)
    events: list[Event] = tell.events
    assert embedded(picture(History(events), [], {}))
