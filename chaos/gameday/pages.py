"""The report of a day as files: one HTML page that needs no network, and Markdown for a wiki or a pull request."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import chaos
from chaos.clean import clean, clean_block
from chaos.gameday.story import Report


def write(folder: Path, report: Report) -> tuple[Path, Path]:
    """`report.html` and `report.md` in a folder, each whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    pages = (folder / "report.html", folder / "report.md")
    for path, template, escape in zip(pages, ("page.html.j2", "page.md.j2"), (True, False), strict=True):
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        draft.write_text(_render(template, report, escape=escape))
        draft.replace(path)
    return pages


def _render(template: str, report: Report, *, escape: bool) -> str:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        autoescape=escape, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, finalize=_tidy,
        keep_trailing_newline=True, loader=FileSystemLoader(Path(__file__).parent),
    )  # fmt: skip
    zone = ZoneInfo(report.story.day.plan.timezone)
    environment.filters |= {
        "clock": partial(_clock, zone=zone), "day": partial(_day, zone=zone), "figure": _figure, "cell": _cell,
    }  # fmt: skip
    return environment.get_template(template).render(
        report=report, day=report.story.day, plan=report.story.day.plan, agenda=report.story.day.agenda,
        version=chaos.__version__, zone=report.story.day.plan.timezone,
    )  # fmt: skip


def _tidy(value: Any) -> Any:
    return clean_block(value) if type(value) is str else value


def _clock(at: float, zone: ZoneInfo) -> str:
    return f"{datetime.fromtimestamp(at, UTC).astimezone(zone):%H:%M:%S}"


def _day(at: float | None, zone: ZoneInfo) -> str:
    return "–" if at is None else f"{datetime.fromtimestamp(at, UTC).astimezone(zone):%a %Y-%m-%d %H:%M:%S %Z}"


def _figure(value: float | None, unit: str) -> str:
    return "–" if value is None else f"{value:.3g} {unit}".strip()


def _cell(text: object) -> str:
    """Text within a Markdown table."""
    return " ".join(clean(text).split()).replace("|", "\\|").replace("<", "&lt;")
