"""Generations in a bucket, on a real S3-compatible server behind a front that can refuse, and lose answers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("moto.server", reason="moto is not installed: pip install 'mlchaos[storage]'")
pytest.importorskip("boto3", reason="boto3 is not installed: pip install 'mlchaos[storage]'")

import boto3
from moto.server import ThreadedMotoServer

from targets.trainer.settings import Address, Settings
from targets.trainer.store.bucket import BUCKET, Bucket, Trouble
from targets.trainer.store.server import Server, Store
from targets.trainer.wire import Caller, Frame, digest

from .cluster import record
from .conftest import LiveStore
from .recorded import Events
from .test_store import lead, refusal

pytestmark = pytest.mark.slow
Deed = Callable[[str, str], str | None]


class Front:
    """Passes requests on to the server; `deed(method, path)` says `refuse` or `lose` for those it hits."""

    def __init__(self, port: int) -> None:
        self.deed: Deed = lambda method, path: None
        self.requests: list[tuple[str, str]] = []
        front = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _pass(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                path = self.path.partition("?")[0]
                front.requests.append((self.command, path))
                deed = front.deed(self.command, path)
                if deed == "refuse":
                    return self._answer(503, [], b"<Error><Code>SlowDown</Code></Error>")
                behind = HTTPConnection("127.0.0.1", port)
                behind.request(self.command, self.path, body, {k: v for k, v in self.headers.items() if k != "Expect"})
                answer = behind.getresponse()
                content = answer.read()
                behind.close()
                if deed == "lose" and answer.status < 300:
                    self.close_connection = True
                    return None
                return self._answer(answer.status, answer.getheaders(), content)

            do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = _pass

            def _answer(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
                self.send_response(status)
                own = {"content-length", "connection", "date", "server", "transfer-encoding"}
                for name, value in headers:
                    if name.lower() not in own or (self.command == "HEAD" and name.lower() == "content-length"):
                        self.send_header(name, value)
                if self.command != "HEAD":
                    self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self.server.server_address[1]}"

    def only(self, times: int, deed: str, method: str, end: str) -> None:
        """Do that to the first requests of that method for keys with that end."""
        left = [times]

        def decide(asked: str, path: str) -> str | None:
            if asked == method and path.endswith(end) and left[0]:
                left[0] -= 1
                return deed
            return None

        self.deed = decide


@pytest.fixture(scope="module")
def moto() -> Iterator[int]:
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    assert host
    yield port
    server.stop()


@pytest.fixture
def front(moto: int) -> Iterator[Front]:
    with closing(HTTPConnection("127.0.0.1", moto)) as control:
        control.request("POST", "/moto-api/reset")
        control.getresponse().read()
    client = boto3.client(
        "s3", endpoint_url=f"http://127.0.0.1:{moto}", region_name="us-east-1",
        aws_access_key_id="a", aws_secret_access_key="b",
    )  # fmt: skip
    client.create_bucket(Bucket=BUCKET)
    client.close()
    front = Front(moto)
    thread = threading.Thread(target=front.server.serve_forever, daemon=True)
    thread.start()
    yield front
    front.server.shutdown()
    front.server.server_close()
    thread.join()


class Patient(LiveStore):
    """Waits for as long as a bucket may take on a busy machine."""

    def __init__(self, server: Server, events: Events) -> None:
        super().__init__(server, events)
        self.caller = Caller(server.address, "tester", try_timeout=20.0)

    def call(self, op: str, body: bytes = b"", **fields: Any) -> Frame:
        return self.caller.call(op, body=body, deadline=30.0, **fields)


@contextmanager
def live(front: Front, folder: Path, **settings: Any) -> Iterator[LiveStore]:
    given, events = Settings(objects=1, **{"objects_budget": 2.0, **settings}), Events()
    shelf = Bucket(front.address, given)
    server = Server(Store(folder / "store", given, events, shelf), Address("127.0.0.1", 0))
    thread = threading.Thread(target=server.serve)
    thread.start()
    store = Patient(server, events)
    try:
        yield store
    finally:
        store.caller.close()
        server.close()
        thread.join()
        shelf.close()


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> Events:
    """What is emitted by recovery paths."""
    return record(monkeypatch)


def paths(said: Events) -> list[str]:
    return [e["name"] for e in said.of("path.exercised")]


def test_a_generation_goes_all_the_way_and_back(front: Front, tmp_path: Path) -> None:
    with live(front, tmp_path) as store:
        token = lead(store)
        store.save(token, 1)
        assert store.states() == {1: "committed"}
        body = store.call("shard.get", generation=1, name="__1_0.distcp").body
        assert body == b"shard 1 of 1, long enough to rot"
        assert not list((tmp_path / "store").glob("gen-*")), "nothing of it lies in the store's folder"
        for generation in range(2, 6):
            store.save(token, generation)
        assert store.states() == {3: "committed", 4: "committed", 5: "committed"}
    with live(front, tmp_path) as store:
        assert store.states() == {3: "committed", 4: "committed", 5: "committed"}


def test_the_marker_is_put_last_and_nothing_is_copied(front: Front, tmp_path: Path) -> None:
    with live(front, tmp_path) as store:
        store.save(lead(store), 1)
    puts = [path for method, path in front.requests if method == "PUT"]
    names = [path.rpartition("/")[2] for path in puts]
    assert names[-3:] == ["manifest.json", "COMMITTED", "latest"]
    assert len(puts) == len(set(puts)), "no key is put twice"


def test_a_shard_is_immutable_here_too(front: Front, tmp_path: Path) -> None:
    with live(front, tmp_path) as store:
        token = lead(store)
        store.save(token, 1, upto="shards")
        assert refusal(store, "generation.commit", token=token, generation=1) == "incomplete"
        wrong = b"other"
        facts = {"name": "__0_0.distcp", "step": 20, "rank": 0, "length": len(wrong)}
        assert refusal(
            store, "shard.put", body=wrong, token=token, generation=1, digest=digest(wrong), **facts
        ) == "immutable"  # fmt: skip


def test_a_throttled_put_is_tried_again_within_the_budget(front: Front, tmp_path: Path, said: Events) -> None:
    with live(front, tmp_path) as store:
        front.only(3, "refuse", "PUT", "/shards/__1_0.distcp")
        store.save(lead(store), 1)
        assert store.states() == {1: "committed"}
    assert paths(said) == ["storage.retry"]


def test_throttled_beyond_the_budget_is_trouble_and_not_a_commit(front: Front, tmp_path: Path) -> None:
    with live(front, tmp_path, objects_budget=0.5) as store:
        token = lead(store)
        store.save(token, 1, upto="shards")
        front.only(1000, "refuse", "PUT", "/decision.json")
        manifest = {"generation": 1, "step": 20, "epoch": token, "world": 2, "shards": []}
        assert refusal(store, "generation.decide", token=token, generation=1, manifest=manifest) == "storage"
        tries = sum(path.endswith("/decision.json") for method, path in front.requests if method == "PUT")
        assert 2 <= tries <= 12, "it backs off"
        assert store.states() == {1: "open"}


@pytest.mark.parametrize("name", ["/shards/__1_0.distcp", "/COMMITTED"])
def test_a_put_whose_answer_was_lost_is_found_to_be_its_own(
    front: Front, tmp_path: Path, said: Events, name: str
) -> None:
    with live(front, tmp_path) as store:
        front.only(1, "lose", "PUT", name)
        store.save(lead(store), 1)
        assert store.states() == {1: "committed"}
        assert len(store.events.of("checkpoint.committed")) == 1
    assert "storage.own_write_found" in paths(said)


def test_what_somebody_else_put_is_not_taken_for_its_own(front: Front, tmp_path: Path) -> None:
    with live(front, tmp_path) as store:
        lead(store)
        with closing(Bucket(front.address, Settings(objects=1))) as shelf:
            shelf.create("gen-000009/begun.json", b"one")
            with pytest.raises(Trouble, match="is there already"):
                shelf.create("gen-000009/begun.json", b"another")
            assert shelf.read("gen-000009/begun.json") == b"one"


def test_a_lost_answer_is_a_failure_to_the_defect_although_the_marker_is_there(front: Front, tmp_path: Path) -> None:
    with live(front, tmp_path, defect="lost-response-is-failure") as store:
        token = lead(store)
        store.save(token, 1, upto="decide")
        front.only(1, "lose", "PUT", "/COMMITTED")
        assert refusal(store, "generation.commit", token=token, generation=1) == "storage"
        assert store.states() == {1: "committed"}
        assert not store.events.of("checkpoint.committed")


def test_a_server_that_is_not_there_is_trouble(front: Front) -> None:
    with (
        closing(Bucket("http://127.0.0.1:1", Settings(objects=1, objects_budget=0.3))) as shelf,
        pytest.raises(Trouble),
    ):
        shelf.has("x")
