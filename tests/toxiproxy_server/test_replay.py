"""Calls recorded from a real Toxiproxy server (2.12.0), answered alike or as `deviations.json` says and why.

`calls.json` are facts: 153 calls in order, from a server without proxies to one without proxies.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from .harness import PATIENCE, serving

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
CALLS: list[dict[str, Any]] = json.loads((HERE / "calls.json").read_text())
DEVIATIONS: dict[str, dict[str, Any]] = json.loads((HERE / "deviations.json").read_text())
FACTS = ("status", "content_type", "response")


def free_ports(first: int) -> Iterator[int]:
    """Below those that the kernel gives out, so that a name for one of them stays a name."""
    for port in range(first, first + 1000):
        with ExitStack() as stack:
            try:
                stack.enter_context(socket.create_server(("127.0.0.1", port)))
            except OSError:
                continue
        yield port


def comparable(value: Any) -> Any:
    """Without what differs from run to run: the words of a JSON decoder."""
    if isinstance(value, dict):
        return {key: comparable(member) for key, member in value.items()}
    if isinstance(value, list):
        return [comparable(member) for member in value]
    if isinstance(value, str):
        return re.sub(r"(?s)^bad request body: .*", "bad request body: <detail>", value)
    return float(value) if type(value) is int else value


def parsed(text: str, names: dict[int, str]) -> Any:
    """A body with ports by name: those of the test, and `<port>` for any that the kernel chose."""

    def named(match: re.Match[str]) -> str:
        port = int(match[2])
        return f"{match[1]}:{names.get(port, '<port>' if port >= 10_000 else match[2])}"

    text = re.sub(r"(127\.0\.0\.1|localhost|\[::\]):(\d+)", named, text)
    try:
        return json.loads(text)
    except ValueError:
        return text


def perform(call: dict[str, Any], port: int, names: dict[int, str]) -> dict[str, Any]:
    """Send one call, and return its facts."""
    body = call.get("body", "")
    text = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
    for number, name in names.items():
        text = text.replace(name, str(number))
    headers = call.get("headers", {})
    client = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        chunked = headers.get("Transfer-Encoding") == "chunked"
        client.request(call["method"], call["path"], text.encode() or None, headers, encode_chunked=chunked)
        answer = client.getresponse()
        response = parsed(answer.read().decode(), names)
        return {"status": answer.status, "content_type": answer.getheader("Content-Type"), "response": response}
    finally:
        client.close()


def test_every_recorded_call_is_answered_alike_or_deliberately_not() -> None:
    wrong = []
    with serving("--proxy-metrics") as server:
        ports = free_ports(21_000)
        names = {server.port: "<port:api>", next(ports): "<port:a>", next(ports): "<port:b>"}
        for call in CALLS:
            wanted = call | DEVIATIONS.get(call["id"], {})
            found = perform(call, server.port, names)
            wrong += [
                f"{call['id']}: {fact} should be {wanted[fact]!r} and is {found[fact]!r}"
                for fact in FACTS
                if comparable(wanted[fact]) != comparable(found[fact])
            ]
    assert not wrong, "\n".join(wrong)


def test_every_deviation_is_one_and_says_why() -> None:
    recorded = {call["id"]: call for call in CALLS}
    assert len(recorded) == 153
    for name, deviation in DEVIATIONS.items():
        facts = deviation.keys() - {"why"}
        assert deviation["why"], name
        assert facts, name
        assert facts <= set(FACTS)
        assert all(deviation[fact] != recorded[name][fact] for fact in facts), f"{name} is recorded like that"
