"""A replica, asked as the router asks it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from redis.exceptions import OutOfMemoryError

from chaos import inside
from targets.serving.models import features
from targets.serving.models.golden import golden_rank, golden_tokens, same_scores
from targets.serving.replica.app import Replica
from targets.serving.replica.saving import InStore, Kept
from targets.serving.settings import Settings

from .replica import FAST, Stack, run, until

pytestmark = pytest.mark.slow
SETTINGS = Settings(**FAST)
PROMPTS = [list(b"first"), list(b"then"), list(b"last")]


@pytest.fixture(autouse=True)
def events(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, Any]]]:
    told: list[tuple[str, dict[str, Any]]] = []
    monkeypatch.setattr(inside, "emit", lambda kind, /, **data: told.append((kind, data)))
    return told


def golden(turns: int, generation: int = 1) -> list[int]:
    return golden_tokens(SETTINGS, generation, PROMPTS[:turns])


def generation_of(replica: Replica) -> int | None:
    return replica.shelf.current.generation if replica.shelf.current else None


def turn(number: int, **more: Any) -> dict[str, Any]:
    history = [token for i in range(number) for token in (*PROMPTS[i], *golden(i + 1))]
    return {"session": "s", "turn": number, "prompt": PROMPTS[number], "tokens": 6, "history": history, **more}


def test_it_ranks_by_every_rung_as_the_golden_models_do(tmp_path: Path) -> None:
    async def scenario(stack: Stack) -> None:
        for tier in ("primary", "secondary", "tertiary", "static"):
            status, body, _ = await stack.rank(x_tier=tier)
            assert (status, body["tier"], body["generation"]) == (200, tier, 1)
            assert same_scores(body["scores"], golden_rank(SETTINGS, 1, tier, 5, [1, 2, 3], body["features"]))
        for level in ("/live", "/ready", "/correct"):
            assert (await stack.get(level))[0] == 200

    run(tmp_path, scenario)


@pytest.mark.parametrize(
    "body", [{"user": -1}, {"items": []}, {"items": [5000]}, {"items": list(range(201))}, {"user": "x"}]
)
def test_mistakes_of_the_client_are_its_own(tmp_path: Path, body: dict[str, Any]) -> None:
    async def scenario(stack: Stack) -> None:
        assert (await stack.rank(**body))[0] == 400
        assert (await stack.rank(x_deadline_ms="soon"))[0] == 400
        assert (await stack.generate(**turn(0, prompt=[999])))[0] == 400

    run(tmp_path, scenario)


def test_a_session_says_what_the_golden_one_says_turn_by_turn(tmp_path: Path) -> None:
    async def scenario(stack: Stack) -> None:
        for number in range(3):
            tokens, done = await stack.generate(**turn(number))
            assert tokens == list(enumerate(golden(number + 1)))
            assert (done["resumed"], done["recomputed"]) == (None, 0)
        again, _ = await stack.generate(**turn(2))  # the same turn once more
        assert again == tokens
        usage = stack.replicas[0].usage()
        assert usage["blocks"] == usage["held"]

    run(tmp_path, scenario)


WAYS = {"lose": "recompute", "checkpoint": "checkpoint", "replicate": "replica", "external": "external"}


@pytest.mark.parametrize("failover", WAYS)
def test_a_stream_goes_on_elsewhere_where_it_was_cut(
    tmp_path: Path, failover: str, events: list[tuple[str, dict[str, Any]]]
) -> None:
    async def scenario(stack: Stack) -> None:
        await stack.generate(**turn(0))
        tokens, _ = await stack.generate(**turn(1, tokens=4))
        await stack.stop(0)
        said = [token for _, token in tokens]
        rest, done = await stack.generate(1, **turn(1, **{"from": 4, "so_far": said}))
        assert [*tokens, *rest] == list(enumerate(golden(2)))
        assert done["resumed"] == WAYS[failover]
        if failover in ("replicate", "external"):
            assert done["recomputed"] == 0
        if failover == "lose":
            assert done["recomputed"] == len(PROMPTS[0]) + 6 + len(PROMPTS[1]) + 4 - 1
        resumed = [data for kind, data in events if kind == "session.resumed"]
        assert [data["way"] for data in resumed] == [WAYS[failover]]
        assert resumed[0]["computed"] == done["recomputed"] + 1

    run(tmp_path, scenario, replicas=2, failover=failover, kv_every=3)


def test_a_copy_is_found_by_a_replica_that_does_not_hold_it(tmp_path: Path) -> None:
    async def scenario(stack: Stack) -> None:
        await stack.generate(0, **turn(0))
        _, done = await stack.generate(2, **turn(1))
        assert (done["resumed"], done["recomputed"]) == ("replica", 0)

    run(tmp_path, scenario, replicas=3)


@pytest.mark.parametrize("failover", ["replicate", "external"])
def test_an_older_owner_writes_nothing_any_more(
    tmp_path: Path, failover: str, events: list[tuple[str, dict[str, Any]]]
) -> None:
    async def scenario(stack: Stack) -> None:
        slow = asyncio.create_task(stack.generate(0, **turn(0, tokens=100)))
        await until(lambda: any(kind == "kv.written" for kind, _ in events))
        await stack.generate(1, **turn(0))
        tokens, last = await slow
        assert last is None or last["status"] == 503
        assert len(tokens) < 100
        rejected = [data for kind, data in events if kind == "write.rejected"]
        assert rejected[0]["token"] < rejected[0]["highest"]
        assert stack.replicas[0].sessions.blocks.used == stack.replicas[0].sessions.held

    run(tmp_path, scenario, replicas=2, failover=failover, token_seconds=0.005)


@pytest.mark.parametrize("failover", ["replicate", "external"])
@pytest.mark.parametrize(("defect", "told"), [("stale-kv-accepted", 2), ("stale-kv-hidden", 1)])
def test_by_a_deliberate_bug_it_does_and_is_told_of_a_newer_one_or_not(
    tmp_path: Path, failover: str, defect: str, told: int, events: list[tuple[str, dict[str, Any]]]
) -> None:
    async def scenario(stack: Stack) -> None:
        slow = asyncio.create_task(stack.generate(0, **turn(0, tokens=100)))
        await until(lambda: any(kind == "kv.written" for kind, _ in events))
        await stack.generate(1, **turn(0))
        count = len(events)
        tokens, _ = await slow
        assert len(tokens) == 100
        late = [data for kind, data in events[count:] if kind == "kv.written"]
        assert {(data["token"], data["highest"]) for data in late} == {(1, told)}
        assert all(data["seconds"] > 0 for data in late)

    run(tmp_path, scenario, replicas=2, failover=failover, defect=defect, token_seconds=0.005)


def test_by_a_deliberate_bug_a_copy_is_found_and_not_used(
    tmp_path: Path, events: list[tuple[str, dict[str, Any]]]
) -> None:
    async def scenario(stack: Stack) -> None:
        await stack.generate(0, **turn(0))
        tokens, done = await stack.generate(1, **turn(1))
        assert tokens == list(enumerate(golden(2)))
        assert (done["resumed"], done["recomputed"]) == ("replica", 0)
        (resumed,) = (data for kind, data in events if kind == "session.resumed")
        assert resumed["computed"] == len(PROMPTS[0]) + 6 + len(PROMPTS[1])

    run(tmp_path, scenario, replicas=2, defect="copy-not-used")


@pytest.mark.parametrize("defect", ["none", "unsaved-stream-ends"])
def test_a_session_that_cannot_be_saved_goes_on_unkept_and_by_a_deliberate_bug_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, defect: str, events: list[tuple[str, dict[str, Any]]]
) -> None:
    async def refused(*_: object) -> Kept:
        raise OutOfMemoryError("command not allowed when used memory > 'maxmemory'.")

    async def scenario(stack: Stack) -> None:
        monkeypatch.setattr(InStore, "save", refused)
        said, _ = await stack.generate(0, **turn(0))
        assert said == (list(enumerate(golden(1))) if defect == "none" else 500)
        assert not any(kind == "kv.written" for kind, _ in events)

    run(tmp_path, scenario, failover="external", defect=defect)


@pytest.mark.parametrize(("defect", "left"), [("none", 0), ("kv-not-freed", 1)])
def test_a_stream_whose_client_has_gone_gives_its_blocks_back(tmp_path: Path, defect: str, left: int) -> None:
    async def scenario(stack: Stack) -> None:
        replica = stack.replicas[0]
        await stack.generate(stop_after=2, **turn(0, tokens=60))
        await until(lambda: not replica.generation.streams)
        usage = replica.usage()
        assert usage["sessions"] == 0
        assert (usage["blocks"] != usage["held"]) == bool(left)

    run(tmp_path, scenario, defect=defect, token_seconds=0.01)


def test_without_blocks_idle_sessions_make_room_and_then_nobody_is_let_in(tmp_path: Path) -> None:
    async def scenario(stack: Stack) -> None:
        for name in "abcd":
            assert (await stack.generate(**turn(0, session=name)))[1] is not None
        assert len(stack.replicas[0].sessions) < 4
        assert (await stack.generate(**turn(0, prompt=[1] * 250)))[0] == 429

    run(tmp_path, scenario, kv_blocks=5)


def test_what_the_store_has_lost_comes_from_the_source_once_for_all_who_wait(
    tmp_path: Path, events: list[tuple[str, dict[str, Any]]]
) -> None:
    async def scenario(stack: Stack) -> None:
        stack.store.memory.clear()
        answers = await asyncio.gather(*(stack.rank(user=9) for _ in range(8)))
        assert {status for status, _, _ in answers} == {200}
        assert sum(kind == "features.rebuilt" for kind, _ in events) == 1

    run(tmp_path, scenario, source_seconds=0.02, workers=8)


def test_features_fall_back_tier_by_tier_and_without_critical_ones_there_is_no_answer(
    tmp_path: Path, events: list[tuple[str, dict[str, Any]]]
) -> None:
    async def scenario(stack: Stack) -> None:
        await stack.rank()
        replica = stack.replicas[0]
        replica.breaker.state, replica.breaker._opened = "open", float("inf")
        status, body, _ = await stack.rank(user=6)
        wanted = {"critical": "live", "important": "default", "useful": "default", "optional": "omitted"}
        assert (status, body["features"]) == (200, wanted)
        assert same_scores(body["scores"], golden_rank(SETTINGS, 1, "primary", 6, [1, 2, 3], wanted))
        assert (await stack.rank(user=5))[1]["features"]["useful"] == "live"  # still young enough
        assert {data["tier"] for kind, data in events if kind == "features.moved"} == {
            "important",
            "useful",
            "optional",
        }
        await stack.store.close()
        status, _, headers = await stack.rank(user=7)
        assert (status, headers["x-cause"]) == (503, "store")
        assert (await stack.rank(user=7, x_tier="static"))[0] == 200
        assert (await stack.get("/ready"))[0] == 200

    run(tmp_path, scenario)


def test_damaged_features_are_put_right(tmp_path: Path) -> None:
    async def scenario(stack: Stack) -> None:
        stack.store.memory.put(features.key("important", 5).encode(), b"x" * features.LENGTH, None)
        status, body, _ = await stack.rank()
        assert (status, body["features"]["important"]) == (200, "live")
        assert same_scores(body["scores"], golden_rank(SETTINGS, 1, "primary", 5, [1, 2, 3], body["features"]))

    run(tmp_path, scenario)


def test_weights_that_change_in_memory_answer_nobody_and_are_read_again(tmp_path: Path) -> None:
    async def scenario(stack: Stack) -> None:
        replica = stack.replicas[0]
        assert replica.shelf.current is not None
        broken = replica.shelf.current
        broken.models["primary"]["query"][0, 0] += 1.0
        assert (await stack.rank())[0] == 500
        assert (await stack.get("/correct"))[0] == 500
        await until(lambda: replica.shelf.current is not broken)
        assert (await stack.rank())[0] == 200
        assert (await stack.get("/correct"))[0] == 200

    run(tmp_path, scenario)


def test_where_its_generation_is_gone_a_session_goes_on_with_another_and_half_an_answer_does_not(
    tmp_path: Path, events: list[tuple[str, dict[str, Any]]]
) -> None:
    async def scenario(stack: Stack) -> None:
        tokens, _ = await stack.generate(**turn(0, tokens=4))
        async with stack.http.post(f"{stack.place.store_helper.url}/publish") as answer:
            assert answer.status == 200
        (stack.place.models / "gen-000001" / "primary.safetensors").write_bytes(b"rotten")
        await stack.stop(0)
        replica = await stack.start(0)
        assert generation_of(replica) == 2
        said = [token for _, token in tokens]
        half = turn(0, generation=1, **{"from": 4, "so_far": said})
        status, body = await stack.generate(**half)
        assert (status, body["error"]) == (503, "generation 1, with which this answer was begun, is not here")
        assert ("path.exercised", {"name": "weights.substitute"}) not in events
        tokens, done = await stack.generate(**turn(0, generation=1))  # from its beginning, by those that are there
        assert (tokens, done["generation"]) == (list(enumerate(golden(1, 2))), 2)
        assert ("path.exercised", {"name": "weights.substitute"}) in events

    run(tmp_path, scenario)


def test_a_new_generation_is_served_as_soon_as_it_is_committed_and_sessions_keep_theirs(tmp_path: Path) -> None:
    async def scenario(stack: Stack) -> None:
        await stack.generate(**turn(0))
        async with stack.http.post(f"{stack.place.store_helper.url}/publish") as answer:
            assert (await answer.json())["generation"] == 2
        await until(lambda: generation_of(stack.replicas[0]) == 2)
        assert (await stack.rank())[1]["generation"] == 2
        tokens, done = await stack.generate(**turn(1, generation=1))
        assert (tokens, done["generation"]) == (list(enumerate(golden(2))), 1)
        old = await stack.replicas[0].shelf.of(1)
        assert old is not None
        old.models["generator"]["head"][0, 0] += 1.0  # an older one that has changed in memory is read again, too
        tokens, done = await stack.generate(**turn(2, generation=1))
        assert (tokens, done["generation"]) == (list(enumerate(golden(3))), 1)
        tokens, done = await stack.generate(**turn(0, session="other"))
        assert (tokens, done["generation"]) == (list(enumerate(golden(1, 2))), 2)

    run(tmp_path, scenario)


def test_a_replica_that_drains_ends_what_it_has_and_takes_nothing_new(
    tmp_path: Path, events: list[tuple[str, dict[str, Any]]]
) -> None:
    async def scenario(stack: Stack) -> None:
        stream = asyncio.create_task(stack.generate(**turn(0)))
        replica = stack.replicas[0]
        await until(lambda: replica.generation.streams)
        draining = asyncio.create_task(replica.drain.run(5.0))
        await asyncio.sleep(0)
        status, _, headers = await stack.rank()
        assert (status, headers["x-draining"]) == (503, "1")
        assert (await stack.get("/ready"))[0] == 503
        tokens, _ = await stream
        assert tokens == list(enumerate(golden(1)))
        assert await draining == 0
        assert [d["streams"] for k, d in events if k == "drain.begun"] == [1]

    run(tmp_path, scenario, token_seconds=0.02)


def test_more_than_workers_and_queue_are_refused_and_deadlines_hold(tmp_path: Path) -> None:
    async def scenario(stack: Stack) -> None:
        answers = await asyncio.gather(*(stack.rank(user=u) for u in range(6)))
        statuses = sorted(status for status, _, _ in answers)
        assert statuses == [200, 200, 200, 429, 429, 429]
        late = await asyncio.gather(stack.rank(), stack.rank(x_deadline_ms="70"))
        assert [status for status, _, _ in late] in ([200, 504], [200, 429])

    run(tmp_path, scenario, workers=1, replica_queue=2, rank_seconds=0.05)


@pytest.mark.parametrize(("defect", "patient"), [("none", False), ("features-never-degrade", True)])
def test_a_slow_source_holds_up_only_who_lacks_critical_features(tmp_path: Path, defect: str, patient: bool) -> None:
    async def scenario(stack: Stack) -> None:
        stack.store.memory.delete(features.key("useful", 5).encode())
        loop = asyncio.get_running_loop()
        began = loop.time()
        status, body, _ = await stack.rank()
        assert (status, body["features"]["important"]) == (200, "live")
        assert (body["features"]["useful"] == "live") == patient
        assert (loop.time() - began > 0.5) == patient
        assert same_scores(body["scores"], golden_rank(SETTINGS, 1, "primary", 5, [1, 2, 3], body["features"]))
        stack.store.memory.delete(features.key("critical", 6).encode())
        began = loop.time()
        assert (await stack.rank(user=6))[0] == 200
        assert loop.time() - began > 0.5

    run(tmp_path, scenario, source_seconds=0.5, defect=defect)


def test_the_source_is_not_asked_for_more_than_it_can_do(tmp_path: Path) -> None:
    async def scenario(stack: Stack) -> None:
        stack.store.memory.clear()
        answers = await asyncio.gather(*(stack.rank(user=user) for user in range(20)))
        statuses = [status for status, _, _ in answers]
        assert statuses.count(200) == 8
        assert statuses.count(503) == 12

    run(tmp_path, scenario, source_seconds=0.02, source_workers=8)
