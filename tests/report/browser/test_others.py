"""Comparison, repeats and index in a real browser."""

from __future__ import annotations

import msgspec
import pytest
from playwright.sync_api import expect

from chaos.errors import Exit
from chaos.history import History
from chaos.report.compare import Side
from chaos.report.compare import encode as encode_comparison
from chaos.report.index import encode as encode_index
from chaos.result import Result

from ..evidence import NOW, inventory, proof
from ..test_repeats import runs as repeated
from .conftest import Open, keep
from .test_first_screen import on_screen

pytestmark = pytest.mark.slow


def test_two_runs_stand_side_by_side_and_their_curves_zoom(
    open_page: Open, result: Result, red: Result, history: History
) -> None:
    page = open_page(encode_comparison(Side("first", "", result, history), Side("second", "", red, history)))
    boxes = [box for side in page.locator(".side").all() if (box := side.bounding_box())]
    assert len(boxes) == 2
    assert abs(boxes[0]["y"] - boxes[1]["y"]) < 1
    assert on_screen(page, ".side >> nth=1")
    keep(page, "comparison")
    page.locator("#zoom-in").click()
    expect(page.locator("#range")).not_to_contain_text("the whole run")
    page.locator("#curves canvas").first.scroll_into_view_if_needed()
    page.locator("#curves .chart > canvas").first.hover()
    expect(page.locator("#curves .value").first).to_contain_text("A ")


def test_repeats_are_reached_by_the_keyboard(open_page: Open) -> None:
    from chaos.experiment import Budget
    from chaos.judge import series
    from chaos.report.repeats import encode

    repeats = repeated(9.0, 11.0, 14.0, 12.0)
    page = open_page(encode(repeats, series([r.result for r in repeats], Budget())))
    assert on_screen(page, ".strip >> nth=0")
    page.locator(".strip a").first.focus()
    assert "run-0: 9.0 s" in page.evaluate("document.activeElement.getAttribute('aria-label')")
    keep(page, "repeats")


@pytest.mark.parametrize("width", [1280, 390])
def test_the_index_shows_what_is_not_proved_first_and_filters(open_page: Open, width: int) -> None:
    runs = [
        proof(i, "worker.restart", *(("epoch.fence",) if i % 2 else ()), ago=3600.0 * (20 - i),
              exit=Exit.FAIL if i == 5 else Exit.PASS, experiment=("kill_worker", "partition")[i % 2])
        for i in range(20)
    ]  # fmt: skip
    runs = [msgspec.structs.replace(r, figures={"rto.total": 3 + (int(r.run[4:]) * 7 % 5)}) for r in runs]
    declared = {"trainer": inventory("worker.restart", "epoch.fence", "checkpoint.rollback", "spare.promote")}
    page = open_page(encode_index(runs, declared, now=NOW, links={}), width=width, height=800)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert "2" in page.locator(".sum").nth(1).inner_text()
    assert "never proved" in page.locator("#paths tbody tr").first.inner_text()
    keep(page, "index" if width > 400 else "index-phone")
    page.locator("[data-picks=paths]").select_option("proved")
    assert page.locator("#paths tbody tr:visible").count() == 2
    page.locator("[data-filters=runs]").fill("partition")
    expect(page.locator("#runs tbody tr:visible")).to_have_count(10)
    assert page.locator("#say").inner_text() == "10 of 20 shown"
