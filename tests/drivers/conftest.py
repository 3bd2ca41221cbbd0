"""A stage that remembers, and targets made of small Python programs."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from chaos.api import JSON, Launch
from chaos.history import Event


class Recorder:
    """Implements Stage: keeps every event, lets tests wait for one, and holds members at failpoints."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.lines: list[tuple[str, str]] = []
        self.held: dict[str, anyio.Event] = {}  # failpoint -> what lets the members there go on
        self._news = anyio.Event()

    def record(self, source: str, kind: str, data: JSON, t: float | None = None) -> Event:
        now = time.monotonic()
        event = Event(len(self.events), now if t is None else t, time.time(), source, kind, data)
        self.events.append(event)
        self._tell()
        return event

    def log_line(self, member: str, line: str) -> None:
        self.lines.append((member, line))
        self._tell()

    async def at_point(self, source: str, point: str, data: JSON) -> None:
        self.record(source, "point.reached", {"name": point, **data})
        if point in self.held:
            await self.held[point].wait()

    async def until(self, kind: str, source: str | None = None, times: int = 1, within: float = 10.0) -> Event:
        """The nth event of that kind (of that source)."""
        with anyio.fail_after(within):
            while True:
                found = [e for e in self.events if e.kind == kind and source in (None, e.source)]
                if len(found) >= times:
                    return found[times - 1]
                await self._news.wait()

    async def until_line(self, member: str, line: str, times: int = 1, within: float = 10.0) -> None:
        """That many lines of the member hold this text."""
        with anyio.fail_after(within):
            while sum(line in text for name, text in self.lines if name == member) < times:
                await self._news.wait()

    def _tell(self) -> None:
        self._news.set()
        self._news = anyio.Event()


@pytest.fixture
def stage() -> Recorder:
    return Recorder()


@pytest.fixture
def launch(tmp_path: Path) -> Callable[..., Launch]:
    """A launch of members given as Python source, by name; `**more` goes into the target file."""

    def make(
        programs: dict[str, str],
        *,
        lab: bool = True,
        points: tuple[str, ...] = (),
        node: str = "",
        folder: Path = tmp_path,
        **more: Any,
    ) -> Launch:
        members = [
            {"name": name, "role": "program", "command": ["python", "-c", textwrap.dedent(source)], **place(name, node)}
            for name, source in programs.items()
        ]
        spec = {"members": members, "settings": {}, "stop-grace": "500ms", **more}
        base = Path(__file__).parents[2]
        return Launch(spec=spec, settings={}, folder=folder / "run", base=base, points=points, lab=lab)

    return make


def place(name: str, node: str) -> JSON:
    """`node="n-"` puts member `a` on node `n-a`."""
    return {"node": f"{node}{name}"} if node else {}
