"""What somebody sees who has never seen the tool: verdict, what broke, whether it recovered, what to do next."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from playwright.sync_api import Page

from chaos.errors import Exit
from chaos.history import Event, History
from chaos.report.page import Background, encode
from chaos.result import Kind, Result
from chaos.verdict import Outcome, unknown

from ..scripted import check, result_of, serving_run
from .conftest import Open, keep

pytestmark = pytest.mark.slow
FIRST = ("#verdict-title", "#broke", "#recovered", "#next", "#contract .bar", "#contract .terms")


def on_screen(page: Page, selector: str) -> bool:
    """Whether all of it is in the window, without scrolling."""
    size = page.viewport_size
    box = page.locator(selector).first.bounding_box()
    assert size is not None
    assert box is not None, selector
    inside = box["x"] >= 0 and box["x"] + box["width"] <= size["width"]
    return inside and box["y"] >= 0 and box["y"] + box["height"] <= size["height"]


@pytest.mark.parametrize("dark", [False, True])
def test_a_failure_is_told_on_the_first_screen(open_page: Open, red_page: bytes, dark: bool) -> None:
    page = open_page(red_page, dark=dark)
    assert [s for s in FIRST if not on_screen(page, s)] == []
    assert "Failed" in page.locator("#verdict-title").inner_text()
    assert "node n2 was cut off from the others for 3.9 s" in page.locator("#broke").inner_text()
    assert (
        "Yes. Training went on after 4.1 s, of 30.0 s allowed; no step was lost"
        in page.locator("#recovered").inner_text()
    )
    said = page.locator("#next").inner_text()
    for words in ("no-uncommitted-restore", "chaos run cut.yaml --seed 7 --set defect=x", "checkpoint 1 committed"):
        assert words in said
    keep(page, f"fail-{'dark' if dark else 'light'}")


def test_a_pass_says_what_is_proved_and_what_is_not(open_page: Open, result: Result, history: History) -> None:
    note = {"network.partition": "a failed switch; connections that stand are cut as well"}
    page = open_page(encode(result, history, Background(note, "", "chaos run cut.yaml --seed 7")))
    assert [s for s in FIRST if not on_screen(page, s)] == []
    assert "Every promise held" in page.locator("#verdict-title").inner_text()
    said = page.locator("#next").inner_text()
    assert "Proved: 1 invariant and 3 budgets" in said
    assert "a failed switch" in said
    assert "Not proved by one run" in said
    keep(page, "pass-light")


def test_an_inconclusive_run_says_what_was_missing_and_how_to_get_it(open_page: Open, events: list[Event]) -> None:
    missing = unknown("the fault never landed: no rank 7 was there")
    result = result_of(events, check("process.kill", Kind.FAULT, missing), outcome=Outcome.UNKNOWN)
    result = msgspec.structs.replace(result, exit=Exit.INCONCLUSIVE, headline="process.kill: the fault never landed")
    page = open_page(encode(result, History(events), Background(replay="chaos run cut.yaml")))
    assert [s for s in FIRST if not on_screen(page, s)] == []
    assert "Nothing is proved" in page.locator("#verdict-title").inner_text()
    said = page.locator("#next").inner_text()
    assert "What was missing: process.kill" in said
    assert "chaos doctor" in said
    keep(page, "inconclusive-light")


def test_a_service_is_told_by_what_its_clients_saw(open_page: Open) -> None:
    events = serving_run()
    base = result_of(events)
    recovery = msgspec.structs.replace(
        base.recoveries[0], serving=True, detect=0.3, restart=None, load=None, warmup=None
    )
    result = msgspec.structs.replace(base, recoveries=(recovery,))
    page = open_page(encode(result, History(events), Background(replay="chaos run serve.yaml")))
    assert "Clients were served as before after 4.1 s" in page.locator("#recovered").inner_text()
    assert "replica-1 was killed" in page.locator("#broke").inner_text()
    assert "latency of rankings" in page.locator("#curves").inner_text()
    keep(page, "serving-light")


def test_what_must_be_undone_is_the_first_thing_on_the_page(open_page: Open, events: list[Event]) -> None:
    result = msgspec.structs.replace(result_of(events), exit=Exit.HEAL_FAILED, undo=("nft delete table inet cut",))
    page = open_page(encode(result, History(events), Background()))
    undo, verdict = page.locator(".undo").bounding_box(), page.locator(".verdict").bounding_box()
    assert undo is not None
    assert verdict is not None
    assert undo["y"] + undo["height"] <= verdict["y"]
    assert on_screen(page, ".undo")
    keep(page, "heal-failed")


def test_on_a_phone_nothing_is_wider_than_the_screen(open_page: Open, red_page: bytes) -> None:
    page = open_page(red_page, width=390, height=844)
    page.wait_for_selector("#events tbody tr")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert on_screen(page, "#verdict-title")
    assert on_screen(page, "#broke")
    keep(page, "phone")


def test_without_script_everything_that_matters_is_there(open_page: Open, red_page: bytes) -> None:
    page = open_page(red_page, script=False)
    assert [s for s in FIRST if not on_screen(page, s)] == []
    assert page.locator("svg .hit").count() == 1
    assert page.locator(".nojs table.events tbody tr:visible").count() > 15
    assert page.locator("button:visible").count() == 0
    page.locator(".to-event").first.click()
    assert "#e" in page.url


@pytest.mark.parametrize("dark", [False, True])
def test_text_stands_out_from_its_ground(open_page: Open, red_page: bytes, dark: bool) -> None:
    page = open_page(red_page, dark=dark)
    faint: list[list[object]] = page.evaluate(Path(__file__).with_name("contrast.js").read_text())
    assert faint == []
