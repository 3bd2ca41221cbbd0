"""The load as a process: Locust against a router that obeys, or misbehaves; its figures against the facts it tells."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from targets.serving.load import facts
from targets.serving.load.asks import asks
from targets.serving.settings import Settings

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.slow

Facts = list[dict[str, Any]]


class Harness:
    """Listens as the harness does."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "events")
        self.said: Facts = []
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(self.path)
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        stream, _ = self._listener.accept()
        with stream, stream.makefile("rb") as lines:
            for line in lines:
                self.said.append(json.loads(line))

    def all(self) -> Facts:
        """What was said, once nobody says more."""
        self._thread.join(10)
        self._listener.close()
        return self.said

    def of(self, kind: str) -> Facts:
        return [said["d"] for said in self.said if said["k"] == kind]


@contextlib.contextmanager
def router(mode: str, environment: dict[str, str]) -> Iterator[None]:
    address = json.loads(environment["CHAOS_NODES"])["gw"]
    command = [sys.executable, "-m", "tests.targets.serving.fake_router", mode, address]
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"listening\n"
        try:
            yield
        finally:
            process.kill()


def surroundings(harness: Harness, settings: Settings) -> dict[str, str]:
    network = f"127.{random.randrange(128, 255)}.{random.randrange(256)}"
    return os.environ | {
        "CHAOS_EVENTS": harness.path,
        "CHAOS_NODES": json.dumps({"gw": f"{network}.2", "c0": f"{network}.3"}),
        "CHAOS_SETTINGS": msgspec.json.encode(settings).decode(),
        "OMP_NUM_THREADS": "1",
    }


def runs(pid: str) -> bool:
    """Whether that process has not ended; who ought to reap an orphan may take its time."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "XZ"
    except (FileNotFoundError, ProcessLookupError):
        return False


COMMAND = [sys.executable, "-m", "targets.serving.load"]


def run(folder: Path, settings: Settings, mode: str) -> Harness:
    """The load against such a router."""
    harness = Harness(folder)
    environment = surroundings(harness, settings)
    with router(mode, environment):
        assert subprocess.run(COMMAND, cwd=ROOT, env=environment, timeout=50, check=False).returncode == 0
    harness.all()
    return harness


def agree(harness: Harness) -> None:
    """Locust's figures are those of the recorded events, within one percent."""
    ended = harness.of("load.ended")[0]
    done = harness.of("request.completed")
    latencies = sorted(d["latency"] for d in done)
    assert ended["requests"] == len(done) == len(harness.of("request.sent"))
    assert ended["failures"] == sum(bool(facts.failure(d)) for d in done)
    assert ended["mean"] == pytest.approx(sum(latencies) / len(latencies), rel=0.01)
    assert ended["max"] == pytest.approx(latencies[-1], rel=0.01)
    for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99)):
        rank = round(share * len(latencies))
        near = latencies[max(rank - 2, 0) : rank + 2]  # between two ranks either may be meant
        assert near[0] * 0.99 - 0.0001 <= ended[name] <= near[-1] * 1.01 + 0.0001, name


def test_every_request_is_sent_in_its_time_and_its_answer_compared(tmp_path: Path) -> None:
    settings = Settings(seconds=3, rate=60, streams=6, turns=2, tokens=8, think=0.05, wrong_share=0.1, deadline=20.0)
    harness = run(tmp_path, settings, "plain")
    agree(harness)
    meant = list(asks(settings))
    sent = {d["id"]: d for d in harness.of("request.sent")}
    assert {a.id for a in meant} <= sent.keys()
    done = harness.of("request.completed")
    assert {d["status"] for d in done if not d["wrong"]} == {200}
    assert {d["status"] for d in done if d["wrong"]} == {400}
    assert {d["right"] for d in done if not d["wrong"]} == {True}
    turns = [d for d in done if d["what"] == "generate" and not d["wrong"]]
    assert {d["turn"] for d in turns} == {0, 1}
    assert all(d["tokens"] == 8 and not d["missing"] and not d["repeated"] and d["first"] < 5 for d in turns)
    assert all(0 <= d["gap_to_primary"] <= 1 for d in done if d["what"] == "rank" and not d["wrong"])
    moments = {s["d"]["id"]: s["t"] for s in harness.said if s["k"] == "request.sent"}
    begun = next(s["t"] for s in harness.said if s["k"] == "load.started")
    assert all(moments[a.id] - begun == pytest.approx(a.at, abs=0.01) for a in meant)


def test_a_silent_server_does_not_slow_its_load(tmp_path: Path) -> None:
    settings = Settings(seconds=2, rate=60, streams=0, users=10, deadline=0.5, wrong_share=0)
    harness = run(tmp_path, settings, "silent")
    agree(harness)
    done = {d["id"]: d for d in harness.of("request.completed")}
    assert done.keys() == {a.id for a in asks(settings)}
    assert {d["status"] for d in done.values()} == {0}
    errors = [d["error"] for d in done.values()]
    assert set(errors) == {"timeout", "unsent"}
    assert errors.count("timeout") >= 10  # the users, who wait beyond the deadline
    for d in done.values():
        least = 0.5 if d["error"] == "unsent" else 1.5
        assert least <= d["latency"] < least + 1


def test_broken_streams_are_told_apart_from_refusals_and_begun_anew(tmp_path: Path) -> None:
    settings = Settings(seconds=2, rate=20, streams=6, turns=3, tokens=8, think=0.05)
    harness = run(tmp_path, settings, "broken")
    agree(harness)
    done = harness.of("request.completed")
    assert {d["status"] for d in done if d["what"] == "rank"} == {503}
    turns = [d for d in done if d["what"] == "generate"]
    assert {(d["status"], d["error"], d["turn"]) for d in turns} == {(0, "cut", 0)}
    assert all(d["missing"] == list(range(d["tokens"], 8)) and d["tokens"] >= 4 for d in turns)
    assert any("/2" in d["session"] for d in turns)


def test_a_router_that_has_gone_refuses_all(tmp_path: Path) -> None:
    harness = run(tmp_path, Settings(seconds=1, rate=30, streams=0), "gone")
    agree(harness)
    done = harness.of("request.completed")
    errors = [(d["status"], d["error"]) for d in done]
    assert set(errors) <= {(0, "refused"), (0, "closed")}  # the first may meet it on its way out
    assert errors.count((0, "refused")) > len(errors) / 2
    assert harness.of("load.ended")[0]["failures"] == len(done)


def test_a_load_that_is_cut_short_says_what_came_of_it_and_leaves_nobody_behind(tmp_path: Path) -> None:
    harness = Harness(tmp_path)
    environment = surroundings(harness, Settings(seconds=60, rate=50, streams=0, deadline=30))
    with router("silent", environment), subprocess.Popen(COMMAND, cwd=ROOT, env=environment) as process:
        while not harness.of("request.sent"):
            time.sleep(0.05)
        checkers = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        process.terminate()
        assert process.wait(10) == 0
    harness.all()
    ended = harness.of("load.ended")[0]
    assert ended["requests"] == 0
    assert ended["open"] == len(harness.of("request.sent"))
    end = time.monotonic() + 10
    while any(map(runs, checkers)) and time.monotonic() < end:
        time.sleep(0.05)
    assert len(checkers) == 1
    assert not runs(checkers[0])


def test_without_its_checker_the_load_goes_on_and_compares_nothing(tmp_path: Path) -> None:
    harness = Harness(tmp_path)
    environment = surroundings(harness, Settings(seconds=3, rate=40, streams=0, deadline=20))
    with router("plain", environment), subprocess.Popen(COMMAND, cwd=ROOT, env=environment) as process:
        while len(harness.of("request.completed")) < 10:
            time.sleep(0.05)
        checker = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0]
        os.kill(int(checker), signal.SIGKILL)
        assert process.wait(30) == 0
    harness.all()
    agree(harness)
    done = harness.of("request.completed")
    assert {d["status"] for d in done} == {200}
    assert done[0]["right"] is True
    assert done[-1]["right"] is None


def test_facts_that_nobody_takes_yet_keep_no_user_waiting_and_stay_whole(tmp_path: Path) -> None:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(tmp_path / "events"))
    listener.listen()
    script = """
import json, sys, time
import locust, gevent
from chaos import inside
from targets.serving.load.books import Books

inside.hello("load", role="load")
books = Books(None, lambda data: None)
begun = time.monotonic()
def user(number):
    for i in range(50):
        books.tell("request.sent", time.monotonic(), {"id": f"{number}-{i}", "filler": "x" * 2000})
        inside.emit("other.fact", id=f"{number}-{i}", filler="y" * 2000) if number == 0 else gevent.sleep(0)
gevent.joinall([gevent.spawn(user, n) for n in range(1, 40)])
print(time.monotonic() - begun, flush=True)
sys.stdin.readline()
user(0)
books.flush(30)
"""
    environment = os.environ | {"CHAOS_EVENTS": str(tmp_path / "events"), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", script]
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stream, _ = listener.accept()
        assert float(process.stdout.readline()) < 2  # four megabytes are told, and nobody has read any
        process.stdin.write("\n")
        process.stdin.close()
        with stream, stream.makefile("rb") as lines:
            said = [json.loads(line) for line in lines]
    assert process.returncode == 0
    told = [s["d"]["id"] for s in said if s["k"] == "request.sent"]
    assert len(told) == 40 * 50
    assert sum(s["k"] == "other.fact" for s in said) == 50
    listener.close()
