"""Store and replica as processes: who ends with whom, what comes back, and what is told of it."""

from __future__ import annotations

import asyncio
import os
import queue
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from targets.serving.local import Stack
from targets.serving.models import features
from targets.serving.settings import REPLICA_PORT, STORE_HELPER_PORT, STORE_PORT, Address, Settings
from targets.serving.store.backend import connect

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not shutil.which("redis-server"), reason="no redis-server"),
]
PATIENCE = 40.0  # seconds; a test that waits that long has failed


class Heard:
    """What the members tell, in order."""

    def __init__(self) -> None:
        self._events: queue.Queue[tuple[dict[str, Any], str, dict[str, Any]]] = queue.Queue()

    def __call__(self, who: dict[str, Any], kind: str, data: dict[str, Any]) -> None:
        self._events.put((who, kind, data))

    def until(self, kind: str, **where: Any) -> dict[str, Any]:
        """The next such event; what came before it is forgotten."""
        while True:
            _, heard, data = self._events.get(timeout=PATIENCE)
            if heard == kind and where.items() <= data.items():
                return data


@contextmanager
def stack(folder: Path, **settings: Any) -> Iterator[tuple[Stack, Heard]]:
    heard = Heard()
    running = Stack(folder, Settings(replicas=1, **settings), heard)
    try:
        running.spawn("store", "s0", "store")
        yield running, heard
    finally:
        running.close()


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def stored(running: Stack, user: int) -> bytes | None:
    async def look() -> Any:
        async with connect(Address(running.nodes["s0"], STORE_PORT)) as redis:
            return await redis.get(features.key("critical", user))

    found: bytes | None = asyncio.run(look())
    return found


def test_the_store_ends_with_its_redis(tmp_path: Path) -> None:
    with stack(tmp_path) as (running, heard):
        redis = heard.until("hello", member="redis")["pid"]
        ready = heard.until("store.ready")
        assert (ready["store"], ready["reason"]) == ("redis", None)
        assert stored(running, 7) is not None
        os.kill(redis, signal.SIGKILL)
        assert running.wait("store") == 1


def test_redis_ends_with_its_store_however_that_ends(tmp_path: Path) -> None:
    with stack(tmp_path) as (running, heard):
        redis = heard.until("hello", member="redis")["pid"]
        heard.until("store.ready")
        running.signal("store", signal.SIGKILL)
        running.wait("store")
        for _ in range(1000):
            if gone(redis):
                return
            os.sched_yield()
            signal.sigtimedwait([], 0.01)
        pytest.fail("Redis outlived its store")


def test_a_lost_redis_comes_back_filled_where_the_settings_say_so(tmp_path: Path) -> None:
    with stack(tmp_path, redis_restart=0.1) as (running, heard):
        first = heard.until("hello", member="redis")["pid"]
        heard.until("store.ready")
        os.kill(first, signal.SIGKILL)
        heard.until("path.exercised", name="store.refill")
        assert stored(running, 7) is not None

        async def restart() -> int:
            url = f"http://{running.nodes['s0']}:{STORE_HELPER_PORT}/restart"
            async with aiohttp.ClientSession() as http, http.post(url, params={"down": "0.1"}) as answer:
                return answer.status

        assert asyncio.run(restart()) == 200
        assert stored(running, 7) is not None


def test_an_embedded_store_says_why_it_is_one(tmp_path: Path) -> None:
    with stack(tmp_path, store="embedded") as (running, heard):
        ready = heard.until("store.ready")
        assert (ready["store"], ready["reason"]) == ("embedded", "the settings ask for it")
        assert stored(running, 7) is not None


def test_a_replica_that_is_told_to_end_says_its_last_token_first(tmp_path: Path) -> None:
    async def talk(running: Stack) -> list[bytes]:
        url = f"http://{running.nodes['r0']}:{REPLICA_PORT}"
        ask = {"session": "s", "turn": 0, "prompt": [1, 2], "tokens": 20}
        async with aiohttp.ClientSession() as http, http.post(f"{url}/generate", json=ask) as answer:
            lines = [await answer.content.readline()]
            running.signal("replica-0", signal.SIGTERM)
            async for line in answer.content:
                lines.append(line)
        return lines

    with stack(tmp_path) as (running, heard):
        heard.until("store.ready")
        running.spawn("replica-0", "r0", "replica")
        heard.until("replica.ready")
        lines = asyncio.run(talk(running))
        assert len(lines) == 21
        assert b'"done":true' in lines[-1]
        assert heard.until("drain.begun")["streams"] == 1
        assert heard.until("drain.ended")["lost"] == 0
        assert running.wait("replica-0") == 0
