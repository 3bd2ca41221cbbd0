"""The process: what it announces, what its options change, and that it ends with whoever started it."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from chaos.toxiproxy.server import _parser, main
from chaos.toxiproxy.toxics import kinds

from .harness import PATIENCE, ROOT, awaited, echo, receive, serving, upstream

pytestmark = pytest.mark.slow


def gone(pid: int) -> bool:
    """Whether that process has ended; a zombie that nobody reaps has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def test_it_says_where_it_listens_and_with_which_seed() -> None:
    with serving("--host", "127.0.0.1", "--seed", "5") as server:
        assert server.said["seed"] == 5
        assert server.said["pid"] == server.process.pid
        assert server.call("GET", "/version") == {"version": server.said["version"]}
        assert server.request("GET", "/metrics")[0] == 404


def test_a_seed_is_drawn_and_said_where_none_was_given() -> None:
    with serving() as one, serving() as other:
        assert one.said["seed"] != other.said["seed"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_well(number: signal.Signals) -> None:
    with upstream(echo) as port, serving() as server:
        with server.proxy(port).connect() as client:
            client.sendall(b"x")
            assert client.recv(1) == b"x"
            server.process.send_signal(number)
            assert client.recv(1) == b""
        assert server.process.wait(PATIENCE) == 0


def test_the_end_of_file_on_its_descriptor_ends_it() -> None:
    reader, writer = os.pipe()
    with serving("--dead-man", str(reader), pass_fds=(reader,)) as server:
        os.close(reader)
        os.write(writer, b"still here")
        assert server.call("GET", "/proxies") == {}
        os.close(writer)
        assert server.process.wait(PATIENCE) == 0


STARTER = """
import os, subprocess, sys
reader, writer = os.pipe()
command = [sys.executable, "-m", "chaos.toxiproxy", "--port", "0", "--dead-man", str(reader)]
server = subprocess.Popen(command, pass_fds=(reader,), stdout=subprocess.PIPE)
print(server.pid, server.stdout.readline().decode(), flush=True)
os.read(0, 1)
"""


def test_it_dies_with_a_harness_that_is_killed() -> None:
    command = [sys.executable, "-c", STARTER]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as harness:
        assert harness.stdout is not None
        assert harness.stdin is not None
        number, _, said = harness.stdout.readline().partition(" ")
        port = int(json.loads(said)["listening"].rpartition(":")[2])
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE).close()
        harness.kill()
        awaited(lambda: gone(int(number)), "the end of the server")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)


def test_proxies_of_a_config_file_are_there_from_the_start(tmp_path: Path, echoing: int) -> None:
    config = tmp_path / "proxies.json"
    config.write_text(json.dumps([{"name": "first", "upstream": f"127.0.0.1:{echoing}"}]))
    with serving("--config", str(config)) as server:
        host, _, port = server.call("GET", "/proxies/first")["listen"].rpartition(":")
        with socket.create_connection((host, int(port)), timeout=PATIENCE) as client:
            client.sendall(b"x")
            assert receive(client, 1) == b"x"


@pytest.mark.parametrize("text", ["[{", '[{"name": "x"}]', '{"name": "x"}'])
def test_a_config_that_is_wrong_is_refused(tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "proxies.json"
    config.write_text(text)
    assert main(["--port", "0", "--config", str(config)]) == 2
    assert str(config) in capsys.readouterr().err


def test_a_port_that_is_taken_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert main(["--host", "127.0.0.1", "--port", str(taken.getsockname()[1])]) == 2
    assert "in use" in capsys.readouterr().err


def test_events_are_in_the_file_even_when_it_is_killed(tmp_path: Path, echoing: int) -> None:
    file = tmp_path / "events.jsonl"
    with serving("--events", str(file)) as server:
        proxy = server.proxy(echoing)
        proxy.add("limit_data", bytes=0)
        with proxy.connect() as client:
            client.sendall(b"x")
            assert client.recv(1) == b""
        seen = proxy.await_event(event="connection.closed")
        server.process.kill()
        server.process.wait()
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert seen in lines
    assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))


def test_too_many_connections_do_not_keep_anybody_from_healing(echoing: int) -> None:
    def few() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (80, 80))

    with serving(preexec_fn=few) as server, ExitStack() as stack:
        proxy = server.proxy(echoing)
        proxy.add("noop")
        for _ in range(40):
            stack.enter_context(proxy.connect())
        assert proxy.await_event(event="proxy.cannot-accept")["reason"] == "too many connections"
        proxy.remove("noop_downstream")
        stack.close()
        proxy.await_connections(0)
        with proxy.connect() as client:
            client.sendall(b"x")
            assert client.recv(1) == b"x"


DOCS = (ROOT / "docs/toxiproxy.md").read_text()


def test_the_page_names_every_toxic_with_its_attributes_and_every_option() -> None:
    table = re.findall(r"^\| \*?`(\w+)`\*? \| (.*?) \|", DOCS, re.MULTILINE)
    said = {name: set(re.findall(r"[a-z_]+", re.sub(r"\(.*?\)", "", attributes))) for name, attributes in table}
    assert {name: {a.name for a in kind.attributes} for name, kind in kinds().items()} == {
        name: said.get(name) for name in kinds()
    }
    options = {action.option_strings[-1] for action in _parser()._actions} - {"--help"}
    assert options <= set(re.findall(r"--[a-z-]+", DOCS))


def test_the_page_names_every_event() -> None:
    sources = "".join(path.read_text() for path in (ROOT / "chaos/toxiproxy").glob("*.py"))
    events = set(re.findall(r"record\(\s*\"([a-z.-]+)\"", sources))
    assert len(events) > 8
    assert events <= set(re.findall(r"`([a-z.-]+)`", DOCS))
