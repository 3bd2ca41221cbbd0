"""What keeps the keys: a `redis-server` of the stack's own, or the embedded store."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from abc import ABC, abstractmethod
from pathlib import Path

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from targets.serving.settings import Address, Place, Settings
from targets.serving.store.embedded import Server

PATIENCE = 10.0  # seconds for a Redis to answer its first call
LOOK = 0.02
ROOT = Path(__file__).resolve().parents[3]


class Unavailable(Exception):
    """The settings ask for what this machine has not."""


class Backend(ABC):
    """One life of the store's memory: what was in it is gone with it."""

    name: str

    @abstractmethod
    async def start(self) -> None:
        """Returns once it answers."""

    @abstractmethod
    async def ended(self) -> int:
        """Waits for its end; the exit code."""

    @abstractmethod
    async def stop(self) -> None: ...


class RedisServer(Backend):
    """A process of its own, without files: `--save "" --appendonly no`."""

    name = "redis"

    def __init__(self, address: Address, place: Place) -> None:
        self._address, self._place = address, place
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        folder = self._place.data / "redis"
        folder.mkdir(parents=True, exist_ok=True)
        command = [
            sys.executable, "-m", "targets.serving.store.redis_process", "redis", self._place.node, str(os.getpid()),
            "redis-server", "--bind", self._address.host, "--port", str(self._address.port), "--protected-mode", "no",
            "--save", "", "--appendonly", "no", "--dir", str(folder.resolve()), "--loglevel", "warning",
        ]  # fmt: skip
        paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        self._process = await asyncio.create_subprocess_exec(*command, env={**os.environ, "PYTHONPATH": paths})
        await self._answers(self._process)

    async def _answers(self, process: asyncio.subprocess.Process) -> None:
        async with asyncio.timeout(PATIENCE), connect(self._address) as redis:
            while process.returncode is None:
                try:
                    await redis.ping()
                    return
                except (RedisError, OSError):  # not a recovery path: it has just been started, and nothing has failed
                    await asyncio.sleep(LOOK)  # it does not tell when it listens
        raise Unavailable(f"redis-server ended with {process.returncode}")

    async def ended(self) -> int:
        assert self._process is not None
        return await self._process.wait()

    async def stop(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()


class Embedded(Backend):
    """In the store's own process."""

    name = "embedded"

    def __init__(self, address: Address) -> None:
        self._address, self._server, self._over = address, Server(), asyncio.Event()

    async def start(self) -> None:
        await self._server.start(self._address)

    async def ended(self) -> int:
        await self._over.wait()
        return 0

    async def stop(self) -> None:
        await self._server.close()
        self._over.set()


def choose(settings: Settings, place: Place) -> tuple[Backend, str | None]:
    """The backend, and why it is not Redis."""
    address = place.store
    if settings.store == "embedded":
        return Embedded(address), "the settings ask for it"
    if shutil.which("redis-server"):
        return RedisServer(address, place), None
    if settings.store == "redis":
        raise Unavailable("there is no redis-server on this machine")
    return Embedded(address), "there is no redis-server on this machine"


def connect(address: Address) -> Redis:
    """A client without retries: who calls it decides whether and when to try again."""
    return Redis(
        host=address.host,
        port=address.port,
        protocol=2,
        socket_timeout=None,
        socket_connect_timeout=1.0,
        retry=Retry(NoBackoff(), 0),
    )
