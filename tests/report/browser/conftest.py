"""A real browser without a window, and pages opened in it from disk as a person opens them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, sync_playwright

from chaos.history import History
from chaos.report.page import Background, encode
from chaos.result import Result

CHROMIUM = shutil.which("chromium")
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run")
OUTPUT = Path(__file__).parents[3] / "test-output/report"


class Open(Protocol):
    """Opens a page. What goes wrong on it fails the test at its end, but for what is `expected` on its console."""

    def __call__(
        self, page: bytes, *, width: int = 1280, height: int = 800, dark: bool = False, script: bool = True,
        path: Path | None = None, anchor: str = "", expected: str | None = None,
    ) -> Page: ...  # fmt: skip


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Of a module, not of the session: as long as the client lives, no other test of this thread can run a loop."""
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, headless=True, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


@pytest.fixture
def open_page(browser: Browser, tmp_path: Path) -> Iterator[Open]:
    troubles: list[str] = []
    contexts: list[BrowserContext] = []

    def asked(request: Request) -> None:
        if not (request.url.startswith("file://") and request.is_navigation_request()):
            troubles.append(f"request: {request.url}")

    def opened(
        page: bytes, *, width: int = 1280, height: int = 800, dark: bool = False, script: bool = True,
        path: Path | None = None, anchor: str = "", expected: str | None = None,
    ) -> Page:  # fmt: skip
        file = path or tmp_path / "report.html"
        file.write_bytes(page)
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            java_script_enabled=script,
            reduced_motion="reduce",
        )
        contexts.append(context)
        tab = context.new_page()
        tab.set_default_timeout(10_000)

        def said(message: ConsoleMessage) -> None:
            if expected is None or expected not in message.text:
                troubles.append(f"console: {message.text}")

        tab.on("console", said)
        tab.on("pageerror", lambda error: troubles.append(f"error: {error}"))
        tab.on("request", asked)
        tab.goto(f"{file.as_uri()}{anchor}")
        return tab

    yield opened
    for context in contexts:
        context.close()
    assert troubles == []


@pytest.fixture
def red_page(red: Result, history: History) -> bytes:
    notes = {"network.partition": "a failed switch"}
    return encode(red, history, Background(notes, '{"actions": []}', "chaos run cut.yaml --seed 7 --set defect=x"))


def keep(page: Page, name: str) -> None:
    """A picture for people, among the output of the tests."""
    OUTPUT.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=OUTPUT / f"{name}.png")
