"""The store: publishing, the embedded server, and a real Redis that comes and goes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from targets.serving.models import features, manifest
from targets.serving.publish import publish, publish_missing, publish_next
from targets.serving.settings import Address, Settings
from targets.serving.store.backend import connect
from targets.serving.store.embedded import Commands, Memory, Server, encode
from targets.serving.store.scripts import ACQUIRE, RAISE, SAVE
from targets.serving.store.source import Source


class Events(list[tuple[str, dict[str, Any]]]):
    def __call__(self, kind: str, /, **data: Any) -> None:
        self.append((kind, data))


def test_a_generation_is_committed_after_all_of_it_is_there(tmp_path: Path) -> None:
    events = Events()
    published = publish(tmp_path, Settings(), 1, events)
    assert [kind for kind, _ in events] == ["model.published", "checkpoint.committed"]
    assert events[1][1]["digest"] == manifest.digest(published.encode())
    folder = manifest.folder(tmp_path, 1)
    assert (folder / manifest.MARKER).read_text() == events[1][1]["digest"]
    for shard in published.shards:
        assert manifest.digest((folder / shard.name).read_bytes()) == shard.digest
    assert manifest.committed(tmp_path) == [1]


def test_only_what_is_missing_is_published_and_an_uncommitted_one_keeps_its_number(tmp_path: Path) -> None:
    publish_missing(tmp_path, Settings(generations=2), Events())
    (manifest.folder(tmp_path, 2) / manifest.MARKER).unlink()
    assert publish_next(tmp_path, Settings(), Events()) == 3
    events = Events()
    publish_missing(tmp_path, Settings(generations=2), events)
    assert [data["generation"] for kind, data in events if kind == "checkpoint.committed"] == [2]


def test_the_same_seed_publishes_the_same_bytes(tmp_path: Path) -> None:
    first = publish(tmp_path / "a", Settings(), 1, Events())
    assert publish(tmp_path / "b", Settings(), 1, Events()) == first
    assert publish(tmp_path / "c", Settings(seed=8), 1, Events()) != first


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_embedded_keys_expire_and_hashes_keep_their_fields() -> None:
    clock = Clock()
    commands = Commands(Memory(clock))
    assert commands.call([b"SET", b"k", b"v", b"PX", b"500"]) == "OK"
    assert commands.call([b"SET", b"k", b"w", b"NX"]) is None
    assert commands.call([b"hset", b"h", b"a", b"1", b"b", b"2"]) == 2
    clock.now = 0.6
    assert commands.call([b"MGET", b"k", b"none"]) == [None, None]
    assert commands.call([b"HGETALL", b"h"]) == [b"a", b"1", b"b", b"2"]
    assert isinstance(commands.call([b"GET", b"h"]), Exception)
    assert isinstance(commands.call([b"NOSUCH"]), Exception)
    assert isinstance(commands.call([b"GET"]), Exception)
    assert encode([b"a", 1, None, "OK"]) == b"*4\r\n$1\r\na\r\n:1\r\n$-1\r\n+OK\r\n"


async def _fencing(redis: Redis) -> None:
    acquire, save, least = (redis.register_script(text) for text in (ACQUIRE, SAVE, RAISE))
    assert await acquire(["fence"], [0, 60000]) == 1
    assert await save(["fence", "kv"], [1, 60000, "head", b"first"]) == 1
    assert await acquire(["fence"], [5, 60000]) == 6  # somebody knew of a higher one: the store had been lost
    assert await save(["fence", "kv"], [1, 60000, "head", b"late"]) == -6
    assert await redis.hgetall("kv") == {b"head": b"first"}
    assert await least(["floor"], [3]) == 3
    assert await least(["floor"], [2]) == 3


def test_the_embedded_store_fences_over_the_protocol_and_is_filled() -> None:
    async def scenario() -> None:
        server = Server()
        address = await server.start(Address("127.0.0.1", 0))
        async with connect(address) as redis:
            await _fencing(redis)
            await Source(Settings(), redis).fill()
            data: Any = await redis.get(features.key("useful", 17))
            assert (features.decode(data, 17) == features.table(7, "useful")[17]).all()
        await server.close()

    asyncio.run(scenario())


def test_the_source_answers_for_few_at_a_time_and_puts_back_what_was_lost() -> None:
    async def scenario() -> None:
        server = Server()
        async with connect(await server.start(Address("127.0.0.1", 0))) as redis:
            source = Source(Settings(source_seconds=0.0), redis)
            answers = await asyncio.gather(*(source.of(3, "replica-0") for _ in range(3)))
            assert len(set(answers)) == 1
            assert len(answers[0]) == 4 * features.LENGTH
            assert await redis.get(features.key("critical", 3)) == answers[0][: features.LENGTH]
        await server.close()

    asyncio.run(scenario())


@pytest.mark.slow
def test_redis_itself_fences_the_same_way(tmp_path: Path) -> None:
    import shutil

    from targets.serving.settings import Place
    from targets.serving.store.backend import RedisServer

    if not shutil.which("redis-server"):
        pytest.skip("no redis-server")

    async def scenario() -> None:
        address = Address("127.77.0.2", 16379)
        place = Place(member="store", node="s0", nodes={"s0": address.host}, data=tmp_path)
        server = RedisServer(address, place)
        await server.start()
        try:
            async with connect(address) as redis:
                await _fencing(redis)
        finally:
            await server.stop()
        assert await server.ended() == -9
        assert not list((tmp_path / "redis").iterdir())

    asyncio.run(scenario())
