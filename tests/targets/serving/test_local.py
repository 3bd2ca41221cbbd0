"""The whole stack without the harness, as a person tries it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from signal import SIGTERM
from typing import Any
from urllib.request import Request, urlopen

import pytest

from targets.serving.local import _addresses, main, stack
from targets.serving.settings import Settings

ROOT = Path(__file__).parents[3]

Heard = list[tuple[str, str, dict[str, Any]]]  # member, kind, data


def local(*arguments: str) -> tuple[int, Heard]:
    command = [sys.executable, "-m", "targets.serving.local", *arguments]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110)
    assert ended.stdout, ended.stderr
    lines = [line.split(maxsplit=3) for line in ended.stdout.splitlines() if line.endswith("}")]
    return ended.returncode, [(member, kind, json.loads(data)) for _, member, kind, data in lines]


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_killed_replica_is_left_and_the_others_answer() -> None:
    # A slow machine may be late with an answer, not with the facts.
    settings = ("seconds=4", "rate=20", "streams=1", "deadline=10", "stream_deadline=20", "store=embedded")
    code, heard = local(*(word for text in settings for word in ("--set", text)), "--kill", "replica-1@1.5")
    assert code == 0
    told = {kind for _, kind, _ in heard}
    assert {"store.ready", "replica.ready", "serving.ready", "request.completed", "load.ended"} <= told
    assert "replica-1" in [data["replica"] for _, kind, data in heard if kind == "replica.ejected"]
    answered = [data for _, kind, data in heard if kind == "request.completed" and data["what"] == "rank"]
    assert len([data for data in answered if data["status"] == 200]) > 0.9 * len(answered) > 30
    assert all(data["right"] is not False for data in answered)


def test_two_stacks_have_addresses_of_their_own() -> None:
    assert _addresses(3) != _addresses(3)
    assert set(_addresses(2)) == {"s0", "gw", "c0", "r0", "r1"}


def test_a_setting_that_does_not_exist_is_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--set", "speed=9"])
    assert "speed" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_one_id_leads_through_router_replica_and_logs() -> None:
    settings = Settings(replicas=1, store="embedded", deadline=20.0)
    with stack(settings, lambda *_: None) as running:
        running.start(load=False)
        router, replica = f"http://{running.nodes['gw']}:8000", f"http://{running.nodes['r0']}:8100"
        request = Request(f"{router}/rank", b'{"user": 1, "items": [1, 2, 3]}', {"x-request-id": "first-of-all"})
        with urlopen(request, timeout=30) as answer:
            assert len(json.load(answer)["scores"]) == 3
        spans = [_spans(f"{at}/trace/first-of-all") for at in (router, replica)]
        attempt = next(span for span in spans[0] if span["name"] == "attempt")
        assert attempt["span"] in {span["parent"] for span in spans[1]}
        running.signal("router", SIGTERM)
        assert running.wait("router") == 0
        logged = [running.log(member) for member in ("router", "replica-0")]
    assert all('"request":"first-of-all"' in log for log in logged)


def _spans(url: str) -> list[dict[str, Any]]:
    with urlopen(url, timeout=30) as answer:
        spans: list[dict[str, Any]] = json.load(answer)["spans"]
        return spans
