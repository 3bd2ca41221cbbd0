from __future__ import annotations

import json
import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser
from typing import Any

import msgspec
import pytest

from chaos.errors import Exit
from chaos.history import Event, History
from chaos.report.page import Background, encode
from chaos.result import Kind, Result
from chaos.verdict import Outcome, failed, passed

from .scripted import Script, check, partition_run, result_of

VOID = {"meta", "br", "link", "img", "input", "hr"}


class Tree(HTMLParser):
    """Elements with their attributes, and the text; complains about tags that do not match."""

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.data = ""  # what the script draws
        self.open: list[str] = []
        self.feed(page.decode())
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        last = self.elements[-1] if self.elements else ("", {})
        if self.open and self.open[-1] in ("script", "style"):
            self.data += data if last[1].get("id") == "data" else ""
        else:
            self.text += data

    @property
    def picture(self) -> dict[str, Any]:
        """The data for the script."""
        found: dict[str, Any] = json.loads(self.data)
        return found

    def with_class(self, name: str) -> list[tuple[str, dict[str, str | None]]]:
        return [(tag, a) for tag, a in self.elements if name in (a.get("class") or "").split()]


def test_the_verdict_and_why_come_first(red: Result, history: History) -> None:
    tree = Tree(encode(red, history, Background()))
    assert "fail" in (tree.with_class("verdict")[0][1]["class"] or "")
    places = [
        tree.text.index(word) for word in ("Failed", "What broke", "Recovery contract", "Timeline", "Checks", "Events")
    ]
    assert places == sorted(places)
    assert tree.text.index("rank 1 restored generation 3") < places[1]


def test_it_needs_nothing_from_anywhere_else(red: Result, history: History) -> None:
    page = encode(red, history, Background()).decode()
    assert not re.search(r"""(?:src|href)=["'](?!#)""", page)
    assert not re.search(r"url\(|@import|https?://|fetch\(|XMLHttpRequest|WebSocket", page)
    assert "default-src 'none'" in page


def test_only_the_scripts_of_the_page_may_run(red: Result, history: History) -> None:
    page = encode(red, history, Background()).decode()
    allowed = set(re.findall(r"'sha256-([^']+)'", page))
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    assert len(scripts) == 2
    assert {b64encode(sha256(script.encode()).digest()).decode() for script in scripts} == allowed
    assert "unsafe-inline" not in page.partition("script-src")[2].partition('"')[0]


def test_every_link_leads_to_an_event_or_a_check(red: Result, history: History) -> None:
    tree = Tree(encode(red, history, Background()))
    ids = {f"#{a['id']}" for _, a in tree.elements if "id" in a}
    listed = {f"#e{event[0]}" for event in tree.picture["events"]}
    links = {a["href"] for tag, a in tree.elements if tag == "a"}
    assert f"#e{red.checks[-2].verdict.evidence[0]}" in links
    assert links <= ids | listed


def test_figures_stand_beside_their_budgets_with_bars(result: Result, history: History) -> None:
    tree = Tree(encode(result, history, Background()))
    assert "of 30.0 s" in tree.text
    widths = [a.get("style") for tag, a in tree.elements if tag == "i"]
    assert "width:31.67%" in widths  # detect: 1.9 of 6


def test_lanes_faults_and_curves_are_drawn_on_paper(result: Result, history: History) -> None:
    tree = Tree(encode(result, history, Background()))
    assert len(tree.with_class("hit")) == 1
    assert len(tree.with_class("curve")) >= 2
    assert len(tree.with_class("alive")) >= 4
    assert {tag for tag, _ in tree.with_class("shade")} == {"rect"}
    for _, a in tree.with_class("alive"):
        assert 150 <= float(a["x"] or 0) <= 990


HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=y>',
    "{{ 7*7 }}",
    "]]>&amp;",
    "</script><b>",
    "<!--<script>",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_of_a_run_becomes_markup(events: list[Event], text: str) -> None:
    tell = Script()
    tell.events = list(events)
    tell(1.0, text, "member.started", member=text, role=text, node=text, pid=1)
    seq = tell(2.0, text, "job.failed", reason=text).seq
    tell(2.0, f"fault:{text}", "fault.landed", kind=text, members=[text], evidence={text: text})
    tell(3.0, f"probe:{text}", "probe.sampled", value=1.0)
    result = result_of(tell.events, check(text, Kind.INVARIANT, failed(text, [seq])), outcome=Outcome.FAIL)
    page = encode(result, History(tell.events), Background({text: text}, text, text, {text: text}))
    tree = Tree(page)
    assert "49" not in re.findall(r"reason=(\S+)", tree.text)
    assert not [tag for tag, _ in tree.elements if tag in ("img", "b") and "onerror" in _]
    assert len([tag for tag, _ in tree.elements if tag == "script"]) == 3
    assert text in tree.text
    assert "<" not in tree.data
    assert text in {lane["name"] for lane in tree.picture["lanes"]}


def test_control_characters_do_not_get_through(events: list[Event]) -> None:
    nasty = "a\x00b\x1b[31mc\ud800d\x85e\u202ef"
    tell = Script()
    tell.events = list(events)
    tell(1.0, nasty, nasty, **{nasty: nasty})
    result = result_of(tell.events, check(nasty, Kind.INVARIANT, failed(nasty, [1])), outcome=Outcome.FAIL)
    page = encode(result, History(tell.events), Background(replay=nasty)).decode()
    assert all(c.isprintable() or c == "\n" for c in page)


def test_a_run_without_events_has_a_page() -> None:
    empty = Result(experiment="x", outcome=Outcome.UNKNOWN, exit=Exit.INCONCLUSIVE, headline="not begun", checks=())
    tree = Tree(encode(empty, History(), Background()))
    assert "Nothing was checked" in tree.text


def test_what_must_be_undone_by_hand_comes_before_the_verdict(events: list[Event]) -> None:
    result = msgspec.structs.replace(result_of(events), exit=Exit.HEAL_FAILED, undo=("nft delete table inet cut",))
    tree = Tree(encode(result, History(events), Background()))
    text = tree.text.partition("Skip to the content")[2]
    assert text.index("nft delete table inet cut") < text.index("Heal failed") < text.index("What broke")


def test_it_says_what_the_faults_stand_for_and_how_to_run_it_again(result: Result, history: History) -> None:
    notes = {"network.partition": "drops packets between nodes", "process.kill": "another fault"}
    schedule = '{"experiment": "cut", "actions": []}'
    tree = Tree(encode(result, history, Background(notes, schedule, "chaos run cut.yaml --seed 7")))
    assert "drops packets between nodes" in tree.text
    assert "another fault" not in tree.text
    assert "chaos run cut.yaml --seed 7" in tree.text
    assert '"actions": []' in tree.text


def test_bounds_are_drawn_into_the_chart_of_its_probe(events: list[Event]) -> None:
    bound = check(
        "training.throughput", Kind.HYPOTHESIS, failed("below", [1]), bound={"at-least": 84.0, "at-most": 300}
    )
    tree = Tree(encode(result_of(events, bound), History(events), Background()))
    assert len(tree.with_class("bound")) == 2
    assert [c["bounds"] for c in tree.picture["charts"] if c["title"] == "training.throughput"] == [[84.0, 300.0]]


def test_each_recovery_has_its_bar_and_the_worst_is_first(events: list[Event]) -> None:
    result = result_of(events)
    slow = msgspec.structs.replace(result.recoveries[0], faults=("process.kill",), total=9.0, warmup=6.1)
    both = msgspec.structs.replace(result, recoveries=(*result.recoveries, slow))
    tree = Tree(encode(both, History(events), Background()))
    assert len(tree.with_class("episode")) == 2
    titles = re.findall(r"(\S+) at 6.1 s: [\d.]+ s", tree.text)
    assert titles[0] == "process.kill"


def test_a_check_is_found_from_the_event_that_shows_it(red: Result, history: History) -> None:
    tree = Tree(encode(red, history, Background()))
    seq = red.checks[-2].verdict.evidence[0]
    (number, *_) = tree.picture["cited"][str(seq)]
    ids = [a["id"] for tag, a in tree.elements if tag == "tr" and "id" in a]
    assert ids[number] == f"c{number}"
    assert "fail" in [a["data-outcome"] for tag, a in tree.elements if a.get("id") == f"c{number}"]


def test_more_checks_and_faults_to_undo_than_there_is_room_for_are_counted(events: list[Event]) -> None:
    many = [check(f"p{n}", Kind.RUN, passed("x" * 3000, range(90))) for n in range(3000)]
    bad = [check(f"b{n}", Kind.RUN, failed("y" * 3000, range(90))) for n in range(5)]
    undone = tuple(f"undo {n} " + "z" * 3000 for n in range(1000))
    result = msgspec.structs.replace(result_of(events, *many, *bad, outcome=Outcome.FAIL), undo=undone)
    page = encode(result, History(events), Background())
    assert len(page) < 1_500_000
    tree = Tree(page)
    rows = [a for tag, a in tree.elements if tag == "tr" and "data-outcome" in a]
    assert [a["data-outcome"] for a in rows[:6]] == ["fail"] * 5 + ["pass"]
    assert f"{len(result.checks) - len(rows)} more pass" in " ".join(tree.text.split())
    assert "And 960 more things" in " ".join(tree.text.split())


def test_two_checks_of_one_name_are_not_taken_for_each_other(events: list[Event]) -> None:
    bad = check("fenced-writer", Kind.INVARIANT, failed("it was not", [3]))
    good = check("fenced-writer", Kind.HYPOTHESIS, passed("it was", [3]))
    result = msgspec.structs.replace(result_of(events), checks=(good, bad), outcome=Outcome.FAIL, exit=Exit.FAIL)
    tree = Tree(encode(result, History(events), Background(promises={"fenced-writer": "PROMISED"})))
    (link, *_) = tree.with_class("to-check")
    target = next(a for tag, a in tree.elements if tag == "tr" and f"#{a.get('id')}" == link[1]["href"])
    assert target["data-outcome"] == "fail"
    assert len(tree.with_class("promise")) == 1


@pytest.mark.slow
def test_a_long_run_stays_a_small_page() -> None:
    events, result = long_run()
    page = encode(result, History(events), Background())
    assert len(page) < 1_500_000
    tree = Tree(page)
    assert f"of {len(events):,} events are in this page" in " ".join(tree.text.split())
    picture = tree.picture
    assert picture["total"] == len(events)
    assert 1000 < len(picture["events"]) < 10_000
    losses = next(c for c in picture["charts"] if c["title"] == "loss")
    values = [v for layer in losses["layers"] for piece in layer["pieces"] for v in piece[1::2]]
    assert (min(values), max(values)) == (-50.0, 99.0)  # one step each of 200,000
    assert losses["count"] == sum(e.kind == "step.completed" for e in events)


def test_much_evidence_of_one_check_leaves_room_for_that_of_another(events: list[Event]) -> None:
    tell = Script()
    tell.events = list(events)
    for i in range(2000):
        tell(13.0, "w", "step.completed", step=i)
    proof = tell(14.0, "w", "step.completed", step=2000).seq
    first = check("a", Kind.INVARIANT, failed("many", range(200, 2000)))
    second = check("b", Kind.INVARIANT, failed("one", [proof]))
    tree = Tree(encode(result_of(tell.events, first, second), History(tell.events), Background()))
    assert any(a.get("id") == f"e{proof}" for _, a in tree.elements)
    assert proof in {event[0] for event in tree.picture["events"]}


def long_run() -> tuple[list[Event], Result]:
    """Two hundred thousand steps and much else, with two steps whose loss is out of all proportion."""
    tell = Script()
    tell.events = partition_run(steps=60)[:-1]
    for i in range(200_000):
        rank, step = i % 4, i // 4
        loss = {123_456: 99.0, 77_777: -50.0}.get(i, 5 - (i * 7919 % 1000) / 1000)
        fields = {"step": step, "rank": rank, "world": 4, "epoch": 1 + step // 1000, "samples": [1, 2, 3]}
        tell(20 + i / 100, f"worker-n{rank}", "step.completed", loss=repr(loss), **fields)
        if i % 40 == 0:
            tell(20 + i / 100, "store", "write.rejected", op="put", resource="x" * 200, reason="stale-epoch")
            tell(20 + i / 100, "store", "checkpoint.committed", generation=i // 20, step=step, epoch=1)
    tell(2100.0, "harness", "run.ended", reason="finished")
    many = tuple(range(0, 200_000, 7))
    broken = check("x", Kind.INVARIANT, failed("many", many), id="T1")
    return tell.events, result_of(tell.events, broken, outcome=Outcome.FAIL)
