from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from chaos.errors import Exit
from chaos.history import Event, History
from chaos.report.page import Background, encode
from chaos.result import Kind, Result
from chaos.verdict import Outcome, failed

from .scripted import Script, check, partition_run, result_of

VOID = {"meta", "br", "link", "img", "input", "hr"}
OPTIONAL_END = {"th"}


class Tree(HTMLParser):
    """Elements with their attributes, and the text; complains about tags that do not match."""

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(page.decode())
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID | OPTIONAL_END:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def with_class(self, name: str) -> list[tuple[str, dict[str, str | None]]]:
        return [(tag, a) for tag, a in self.elements if name in (a.get("class") or "").split()]


def test_the_verdict_and_why_come_first(red: Result, history: History) -> None:
    tree = Tree(encode(red, history, Background()))
    assert "fail" in (tree.with_class("verdict")[0][1]["class"] or "")
    assert tree.text.index(red.headline) < tree.text.index("Recovery contract") < tree.text.index("Timeline")


def test_it_needs_nothing_from_anywhere_else(red: Result, history: History) -> None:
    page = encode(red, history, Background()).decode()
    assert "<script" not in page
    assert not re.search(r"""(?:src|href)=["'](?!#)""", page)
    assert not re.search(r"url\(|@import|https?://", page)
    assert "prefers-color-scheme: dark" in page


def test_every_link_leads_to_an_event_in_the_table(red: Result, history: History) -> None:
    tree = Tree(encode(red, history, Background()))
    ids = {f"#{a['id']}" for _, a in tree.elements if "id" in a}
    links = {a["href"] for tag, a in tree.elements if tag == "a"}
    assert links
    assert links <= ids
    assert f"#e{red.checks[-2].verdict.evidence[0]}" in links


def test_figures_stand_beside_their_budgets_with_bars(result: Result, history: History) -> None:
    tree = Tree(encode(result, history, Background()))
    assert "4.1 s of 30.0 s" in tree.text
    widths = [a.get("style") for tag, a in tree.elements if tag == "i"]
    assert "width:31.67%" in widths  # detect: 1.9 of 6


def test_lanes_faults_and_curves_are_drawn(result: Result, history: History) -> None:
    tree = Tree(encode(result, history, Background()))
    assert len(tree.with_class("hit")) == 1
    assert len(tree.with_class("curve")) >= 2
    assert len(tree.with_class("alive")) >= 4
    assert {tag for tag, _ in tree.with_class("shade")} == {"rect"}
    for _, a in tree.with_class("alive"):
        assert 150 <= float(a["x"] or 0) <= 990


@pytest.mark.parametrize("text", ["<script>alert(1)</script>", '"><img src=x onerror=y>', "{{ 7*7 }}", "]]>&amp;"])
def test_no_text_of_a_run_becomes_markup(events: list[Event], text: str) -> None:
    tell = Script()
    tell.events = list(events)
    tell(1.0, text, "member.started", member=text, role=text, node=text, pid=1)
    seq = tell(2.0, text, "job.failed", reason=text).seq
    tell(2.0, f"fault:{text}", "fault.landed", kind=text, members=[text], evidence={text: text})
    tell(3.0, f"probe:{text}", "probe.sampled", value=1.0)
    result = result_of(tell.events, check(text, Kind.INVARIANT, failed(text, [seq])), outcome=Outcome.FAIL)
    page = encode(result, History(tell.events), Background({text: text}, text, text))
    tree = Tree(page)
    assert "49" not in re.findall(r"reason=(\S+)", tree.text)
    assert not [tag for tag, _ in tree.elements if tag in ("script", "img")]
    assert text in tree.text


def test_control_characters_do_not_get_through(events: list[Event]) -> None:
    nasty = "a\x00b\x1b[31mc\ud800d\x85"
    result = result_of(events, check(nasty, Kind.INVARIANT, failed(nasty, [1])), outcome=Outcome.FAIL)
    page = encode(result, History(events), Background(replay=nasty)).decode()
    assert all(c.isprintable() or c == "\n" for c in page)


def test_a_run_without_events_has_a_page() -> None:
    empty = Result(experiment="x", outcome=Outcome.UNKNOWN, exit=Exit.INCONCLUSIVE, headline="not begun", checks=())
    tree = Tree(encode(empty, History(), Background()))
    assert "Nothing was checked" in tree.text


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


@pytest.mark.slow
def test_a_long_run_stays_a_small_page() -> None:
    events = partition_run(steps=60)
    tell = Script()
    tell.events = events[:-1]
    for i in range(200_000):
        rank, step = i % 4, i // 4
        fields = {"step": step, "rank": rank, "world": 4, "epoch": 1 + step // 1000, "samples": [1, 2, 3]}
        tell(20 + i / 100, f"worker-n{rank}", "step.completed", loss=repr(5 - (i * 7919 % 1000) / 1000), **fields)
        if i % 20 == 0:
            tell(20 + i / 100, "store", "write.rejected", op="put", resource="x" * 200, reason="stale-epoch")
            tell(20 + i / 100, "store", "checkpoint.committed", generation=i // 20, step=step, epoch=1)
    tell(2100.0, "harness", "run.ended", reason="finished")
    many = tuple(range(0, 200_000, 7))
    result = result_of(tell.events, check("x", Kind.INVARIANT, failed("many", many), id="T1"), outcome=Outcome.FAIL)
    page = encode(result, History(tell.events), Background())
    assert len(page) < 1_500_000
    assert page.count(b'<tr id="e') <= 600


def test_much_evidence_of_one_check_leaves_room_for_that_of_another(events: list[Event]) -> None:
    tell = Script()
    tell.events = list(events)
    for i in range(2000):
        tell(13.0, "w", "step.completed", step=i)
    proof = tell(14.0, "w", "step.completed", step=2000).seq
    first = check("a", Kind.INVARIANT, failed("many", range(200, 2000)))
    second = check("b", Kind.INVARIANT, failed("one", [proof]))
    page = encode(result_of(tell.events, first, second), History(tell.events), Background()).decode()
    assert f'id="e{proof}"' in page
