"""Announcements: to webhooks and files, in the background. A channel that fails is noted and holds nothing up."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import msgspec
from anyio import to_thread
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from chaos.gameday.terms import Channel

WAITING = 200  # announcements that wait for a slow channel; more are dropped, and that is noted
PATIENCE = 5.0  # seconds for one request
AT_THE_END = 10.0  # seconds for what is left when the day is over

Message = Mapping[str, Any]
Deliver = Callable[[Channel, Message], None]


class Announcer:
    """Says things on every channel of a plan."""

    def __init__(self, about: Message, streams: Sequence[MemoryObjectSendStream[Message]], note: Callable[[str], None]):
        self._about = about
        self._streams = streams
        self._note = note

    def say(self, kind: str, text: str, at: float) -> None:
        """Announce; never waits and never raises."""
        message = {**self._about, "kind": kind, "text": text, "at": f"{datetime.fromtimestamp(at, UTC):%FT%TZ}"}
        for stream in self._streams:
            try:
                stream.send_nowait(message)
            except anyio.WouldBlock:
                self._note(f"an announcement was dropped, its channel is {WAITING} behind: {text}")
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                pass  # its delivery has ended, and has said why


@asynccontextmanager
async def announcing(
    channels: Sequence[Channel], about: Message, note: Callable[[str], None], deliver: Deliver | None = None
) -> AsyncIterator[Announcer]:
    """An announcer; at the end of the block what is left is delivered, within a limit."""
    pairs = [(channel, *anyio.create_memory_object_stream[Message](WAITING)) for channel in channels]
    async with anyio.create_task_group() as tasks:
        for channel, _, inbox in pairs:
            tasks.start_soon(_deliver_all, channel, inbox, note, deliver or send)
        try:
            yield Announcer(about, [outbox for _, outbox, _ in pairs], note)
        finally:
            for _, outbox, _ in pairs:
                outbox.close()
            tasks.cancel_scope.deadline = min(tasks.cancel_scope.deadline, anyio.current_time() + AT_THE_END)
    tasks.cancel_scope.deadline = math.inf


async def _deliver_all(
    channel: Channel, inbox: MemoryObjectReceiveStream[Message], note: Callable[[str], None], deliver: Deliver
) -> None:
    async with inbox:
        async for message in inbox:
            try:
                await to_thread.run_sync(deliver, channel, message, abandon_on_cancel=True)
            except (OSError, ValueError) as error:
                note(f"not announced on {_where(channel)}: {error}: {message['text']}")


def _where(channel: Channel) -> str:
    """The channel for a report: the path of a webhook is as good as a password."""
    return channel.file or "/".join((channel.webhook or "").split("/")[:3])


def send(channel: Channel, message: Message) -> None:
    """To one channel; OSError or ValueError where it fails."""
    if channel.file is not None:
        with Path(channel.file).open("a") as file:
            file.write(f"{message['at']} {message['kind']} {message['text']}\n")
        return
    from urllib.error import HTTPError
    from urllib.request import Request, urlopen

    body = msgspec.json.encode(message)
    request = Request(channel.webhook or "", data=body, headers={"Content-Type": "application/json"}, method="POST")
    try:
        urlopen(request, timeout=PATIENCE).close()
    except HTTPError as error:  # which holds the answer open
        error.close()
        raise
