"""The report of a long run: its size, the time to write it, and how its timeline zooms in a real browser."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from chaos.history import History
from chaos.judge import judge
from chaos.registry import Registry
from chaos.report.page import Background, encode

from .figures import Figure, median
from .judging import contract
from .place import ROOT, Place
from .processes import BenchError
from .synthetic import Job

EVENTS = 200_000
ROUNDS = 3
SIZE = 1_500_000
SMOOTH = 50.0  # milliseconds: twenty pictures a second
FRAMES = ROOT / "tests/report/browser/frames.js"
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run")


def measure(place: Place) -> Iterator[Figure]:
    """A run of the synthetic trainer, judged, written, and opened."""
    history = History(event for chapter in Job().chapters(EVENTS) for event in chapter)
    asked, find = contract(), Registry().invariant
    result = judge(asked, history, [(a.kind, msgspec.convert(a.settings, find(a.kind))) for a in asked.invariants])
    taken = []
    for _ in range(ROUNDS):
        began = time.process_time()
        page = encode(result, history, Background())
        taken.append(time.process_time() - began)
    what = f"report: {len(history):,} events"
    yield Figure(what=f"{what}, size", unit="kB", ours=len(page) / 1000, bound=SIZE / 1000)
    yield Figure(
        what=f"{what}, processor time to write",
        unit="s",
        ours=median(taken),
        note=f"median of {ROUNDS}, first with imports",
    )
    file = place.scratch("page") / "report.html"
    file.write_bytes(page)
    zoom = _zoom(file)
    frames = sorted(zoom["frames"])
    yield Figure(what=f"{what}, until it is there", unit="ms", ours=zoom["opened"], note="from the click to `load`")
    yield Figure(
        what=f"{what}, frame of a zoom", unit="ms", ours=median(frames), bound=SMOOTH,
        note=f"median of {len(frames)}; worst {frames[-1]:.0f}; {len(zoom['long'])} tasks above 50 ms; no GPU",
    )  # fmt: skip


def _zoom(file: Path) -> dict[str, Any]:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError as error:
        raise BenchError(f"no browser's client: {error}") from error
    chromium = shutil.which("chromium")
    if chromium is None:
        raise BenchError("no chromium on this machine")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
        page = browser.new_page(viewport={"width": 1280, "height": 1000})
        page.goto(file.as_uri(), wait_until="load")
        opened = page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd")
        page.evaluate("document.getElementById('timeline-title').scrollIntoView()")
        zoom: dict[str, Any] = page.evaluate(FRAMES.read_text())
        browser.close()
    return {**zoom, "opened": opened}
