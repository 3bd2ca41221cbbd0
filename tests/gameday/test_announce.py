"""Announcements: on real HTTP and in files; a channel that fails or hangs holds nothing up."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import anyio
import pytest

from chaos.gameday.announce import AT_THE_END, WAITING, Announcer, announcing
from chaos.gameday.terms import Channel

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    """Real time: these are real sockets."""
    return "asyncio"


@contextmanager
def webhook(status: int = 200) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A server that notes what it is told."""
    got: list[dict[str, Any]] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(status)
            self.end_headers()

        def log_message(self, *words: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Hook) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/hook", got
        finally:
            server.shutdown()
            thread.join()


async def test_every_channel_gets_every_line_in_order(tmp_path: Path) -> None:
    notes: list[str] = []
    with webhook() as (url, got):
        channels = (Channel(webhook=url), Channel(file=str(tmp_path / "said.log")))
        async with announcing(channels, {"title": "A day"}, notes.append) as announcer:
            announcer.say("day.started", "it begins", 0.0)
            announcer.say("day.ended", "it is over", 60.0)
    assert [(line["title"], line["kind"], line["text"], line["at"]) for line in got] == [
        ("A day", "day.started", "it begins", "1970-01-01T00:00:00Z"),
        ("A day", "day.ended", "it is over", "1970-01-01T00:01:00Z"),
    ]
    assert (tmp_path / "said.log").read_text().splitlines() == [
        "1970-01-01T00:00:00Z day.started it begins",
        "1970-01-01T00:01:00Z day.ended it is over",
    ]
    assert notes == []


async def test_a_channel_that_fails_is_noted_and_the_others_go_on(tmp_path: Path) -> None:
    notes: list[str] = []
    with webhook(500) as (url, _):
        channels = (Channel(webhook=url), Channel(file=str(tmp_path)), Channel(file=str(tmp_path / "said.log")))
        async with announcing(channels, {}, notes.append) as announcer:
            announcer.say("day.started", "it begins", 0.0)
    assert len(notes) == 2
    assert any("500" in note for note in notes)
    assert not any("/hook" in note for note in notes), "the path of a webhook is a secret"
    assert "it begins" in (tmp_path / "said.log").read_text()


async def test_a_channel_that_hangs_holds_up_neither_the_day_nor_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chaos.gameday.announce.AT_THE_END", 0.2)
    assert AT_THE_END > 0.2
    notes: list[str] = []
    release = threading.Event()

    def hang(channel: Channel, message: object) -> None:
        release.wait(20)

    with anyio.fail_after(5):
        async with announcing((Channel(file="x"),), {}, notes.append, hang) as announcer:
            for number in range(WAITING + 5):
                announcer.say("note.taken", f"line {number}", 0.0)
    release.set()
    assert notes, "what was dropped is noted"
    assert all("was dropped" in note for note in notes)


async def test_no_channel_is_fine() -> None:
    async with announcing((), {}, print) as announcer:
        assert isinstance(announcer, Announcer)
        announcer.say("day.started", "it begins", 0.0)
