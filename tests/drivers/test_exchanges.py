"""HTTP over a link of the lab: what a real client sees of a real service behind the rules."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import anyio
import msgspec
import pytest

from chaos.api import Launch
from chaos.drivers.process import Process
from chaos.exchanges import ExchangeRule, Exchanges
from chaos.faults.objects.throttle import Throttle
from chaos.testing import Recorder

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
Make = Callable[..., Launch]

# Keeps what is put, in memory, and tells of it.
SERVICE = """
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
    from chaos.inside import emit, hello
    kept = {}
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        def do_PUT(self):
            kept[self.path] = self.rfile.read(int(self.headers["content-length"]))
            emit("piece.put", path=self.path, size=len(kept[self.path]), peer=self.client_address[0])
            self.answer(200, b"")
        def do_GET(self):
            self.answer(200, kept[self.path]) if self.path in kept else self.answer(404, b"")
        def answer(self, status, body):
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        def log_message(self, *_):
            pass
    hello("service", role="program")
    server = ThreadingHTTPServer(("0.0.0.0", 9000), Handler)
    emit("service.ready")
    server.serve_forever()
"""
# Puts one piece after the other, each on a new connection, and tells what came back.
CLIENT = """
    import http.client, itertools, json, os, time
    from chaos.inside import emit, hello
    hello("client", role="program")
    there, served = json.loads(os.environ["CHAOS_NODES"])["n-service"], False
    for number in itertools.count():
        began, seen = time.monotonic(), {}
        try:
            connection = http.client.HTTPConnection(there, 9000, timeout=10)
            connection.request("PUT", f"/b/{number}", body=b"x" * 300_000, headers={"Expect": "100-continue"})
            answer = connection.getresponse()
            seen = {"status": answer.status, "body": answer.read().decode()}
            connection.request("GET", f"/b/{number}")
            back = connection.getresponse()
            seen["read"] = len(back.read())
        except OSError as error:
            seen["error"] = type(error).__name__
        served = served or "read" in seen
        if served:  # the service listens
            emit("client.saw", path=f"/b/{number}", seconds=time.monotonic() - began, **seen)
        time.sleep(0.02)
"""
NODES = [{"name": "n-service"}, {"name": "n-client"}]
LINKS = {"objects": {"from": "n-client", "to": "n-service", "port": 9000}}


@contextlib.asynccontextmanager
async def target(make: Make, stage: Recorder) -> AsyncIterator[Exchanges]:
    ready = {"event": "client.saw", "within": "20s"}
    launch = make({"service": SERVICE, "client": CLIENT}, node="n-", nodes=NODES, links=LINKS, ready=ready)
    needing = msgspec.structs.replace(launch, faults=(Throttle(),))
    async with Process().open(needing, stage) as live:
        await live.wait_ready()
        assert isinstance(live, Exchanges)
        yield live


def rule(action: Any, **more: Any) -> ExchangeRule:
    return ExchangeRule(link="objects", methods=("PUT",), path="/b/*", action=action, **more)


async def saw(stage: Recorder, path: str) -> Mapping[str, Any]:
    """What the client saw of its request for that path."""
    with anyio.fail_after(20):
        while True:
            for event in stage.events:
                if event.kind == "client.saw" and event.get("path") == path:
                    return event.data
            await anyio.sleep(0.01)


def put(stage: Recorder, path: str) -> bool:
    return any(e.kind == "piece.put" and e.get("path") == path for e in stage.events)


async def test_without_a_rule_requests_pass_whole_and_so_do_answers(launch: Make, stage: Recorder) -> None:
    async with target(launch, stage) as live:
        ruled = await live.rule(rule("refuse", first=10_000))  # hits nothing
        newest = max(int(e.data["path"].removeprefix("/b/")) for e in stage.events if e.kind == "client.saw")
        seen = await saw(stage, f"/b/{newest + 1}")
        assert (seen["status"], seen["read"]) == (200, 300_000)
        assert (await ruled.lift())["hits"] == 0


async def test_a_refused_request_never_arrives_and_its_client_gets_the_status(launch: Make, stage: Recorder) -> None:
    told = []
    async with target(launch, stage) as live:
        ruled = await live.rule(rule("refuse", status=503, body="<Code>SlowDown</Code>", first=2, last=2))
        proof = await ruled.first(lambda: told.append(len(stage.events)))
        seen = await saw(stage, proof["path"])
        assert (seen["status"], seen["body"], seen.get("read", seen)) == (503, "<Code>SlowDown</Code>", 0)
        assert (proof["status"], proof["bytes"], proof["link"]) == (503, 300_000, "objects")
        assert not put(stage, proof["path"])
        assert len(told) == 1
        after = await saw(stage, f"/b/{int(proof['path'].removeprefix('/b/')) + 1}")
        assert after["status"] == 200
        assert (await ruled.lift())["hits"] == 1


async def test_a_delayed_request_takes_that_long_and_a_lift_lets_it_go(launch: Make, stage: Recorder) -> None:
    async with target(launch, stage) as live:
        ruled = await live.rule(rule("delay", delay=0.5, last=1))
        proof = await ruled.first(lambda: None)
        assert proof["delayed"] >= 0.5
        assert (await saw(stage, proof["path"]))["seconds"] >= 0.5
        held = await live.rule(rule("delay", delay=60.0, last=1))
        begun = anyio.Event()
        async with anyio.create_task_group() as tasks:
            proofs: list[Any] = []

            async def wait() -> None:
                proofs.append(await held.first(begun.set))

            tasks.start_soon(wait)
            with anyio.fail_after(20):
                await begun.wait()
            await held.lift()
        assert proofs[0]["delayed"] < 30
        assert (await saw(stage, proofs[0]["path"]))["status"] == 200


async def test_an_answer_that_is_lost_leaves_the_piece_and_a_reset_connection(launch: Make, stage: Recorder) -> None:
    async with target(launch, stage) as live:
        ruled = await live.rule(rule("lose", last=1))
        proof = await ruled.first(lambda: None)
        assert (proof["status"], proof["answer"]) == (200, "lost")
        seen = await saw(stage, proof["path"])
        assert "Reset" in seen["error"] or "Disconnected" in seen["error"]
        assert put(stage, proof["path"])
        await ruled.lift()
        after = await saw(stage, f"/b/{int(proof['path'].removeprefix('/b/')) + 1}")
        assert after["status"] == 200


async def test_an_answer_that_is_no_success_is_not_lost(launch: Make, stage: Recorder) -> None:
    async with target(launch, stage) as live:
        missing = ExchangeRule(link="objects", methods=("GET",), path="/b/*", action="lose", first=1, last=1)
        refused = await live.rule(rule("refuse", last=1))  # so that what is read next is not there
        ruled = await live.rule(missing)
        proof = await refused.first(lambda: None)
        assert (await saw(stage, proof["path"]))["read"] == 0
        with anyio.move_on_after(0.2):
            await ruled.first(lambda: None)
            raise AssertionError("a 404 counted as an answer that was lost")
