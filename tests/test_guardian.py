"""What is owed outside the lab is undone by whoever still lives: the run, its guardian, or a person."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import anyio
import pytest

from chaos.api import Undo
from chaos.cli import main
from chaos.guardian import NAME, Ledger, settle
from chaos.runner.debts import Debts


class Server(ThreadingHTTPServer):
    """Remembers what was asked of it."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[str] = []
        self.answers: dict[str, int] = {}
        self.news = threading.Condition()

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server_port}{path}"

    def wait(self, count: int) -> list[str]:
        with self.news:
            assert self.news.wait_for(lambda: len(self.asked) >= count, timeout=15.0)
            return list(self.asked)


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_DELETE(self) -> None:
        self.send_response(self.server.answers.get(self.path, 204))
        self.end_headers()
        with self.server.news:
            self.server.asked.append(f"{self.command} {self.path}")
            self.server.news.notify_all()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def undo(server: Server, path: str) -> Undo:
    return Undo(what=f"toxic at {path}", method="DELETE", url=server.url(path))


def test_what_was_healed_is_not_undone_again(server: Server, tmp_path: Path) -> None:
    async def run() -> None:
        debts = Debts(tmp_path)
        settled = await debts.owe(undo(server, "/a"))
        await debts.owe(undo(server, "/b"))
        await settled()
        debts.close()

    anyio.run(run)
    assert server.wait(1) == ["DELETE /b"]  # by the guardian, since nobody said that it was healed


def test_a_run_that_touched_nothing_outside_leaves_no_file(tmp_path: Path) -> None:
    Debts(tmp_path).close()
    assert not list(tmp_path.iterdir())


def test_a_killed_harness_is_survived_by_its_guardian(server: Server, tmp_path: Path) -> None:
    program = f"""
        import anyio, os, signal
        from pathlib import Path
        from chaos.api import Undo
        from chaos.runner.debts import Debts

        async def run():
            debts = Debts(Path({str(tmp_path)!r}))
            for path in ("/first", "/second"):
                await debts.owe(Undo(what=path, method="DELETE", url={server.url("")!r} + path))
            os.kill(os.getpid(), signal.SIGKILL)

        anyio.run(run)
    """
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    code = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], env=environment, check=False).returncode
    assert code == -signal.SIGKILL
    assert server.wait(2) == ["DELETE /second", "DELETE /first"]  # the newest first


def test_a_person_undoes_what_nobody_did(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run = tmp_path / "runs" / "one"
    run.mkdir(parents=True)
    ledger = Ledger(str(run))
    ledger.write({"id": 1, "what": "toxic a", "method": "DELETE", "url": server.url("/a")})
    ledger.write({"id": 2, "what": "toxic b", "method": "DELETE", "url": server.url("/gone")})
    os.write(ledger.file, b'{"id": 3, "wh')  # the harness died while it wrote: so it had not injected yet
    ledger.lock()
    server.answers["/gone"] = 404
    assert main(["undo"]) == 0
    assert "lives" in capsys.readouterr().out
    assert server.asked == []
    ledger.close()
    assert main(["undo"]) == 0
    assert "undone: toxic a" in capsys.readouterr().out
    assert server.wait(2) == ["DELETE /gone", "DELETE /a"]
    assert main(["undo", "runs/one"]) == 0
    assert len(server.asked) == 2


def test_runs_of_game_days_are_looked_at_too(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run = tmp_path / "runs" / "gameday-1-friday-ab" / "01-e" / "one"
    run.mkdir(parents=True)
    (run.parent / "latest").symlink_to("one")
    ledger = Ledger(str(run))
    ledger.write({"id": 1, "what": "toxic a", "method": "DELETE", "url": server.url("/a")})
    ledger.close()
    assert main(["undo"]) == 0
    assert capsys.readouterr().out.count("undone: toxic a") == 1
    assert server.wait(1) == ["DELETE /a"]


def test_what_cannot_be_undone_is_told_and_stays_owed(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chaos.guardian.AGAIN", 0.0)
    ledger = Ledger(str(tmp_path))
    ledger.write({"id": 1, "what": "toxic a", "method": "DELETE", "url": server.url("/a")})
    ledger.close()
    server.answers["/a"] = 500
    assert main(["undo", str(tmp_path)]) == 4
    assert "not undone: toxic a: DELETE" in capsys.readouterr().err
    server.answers["/a"] = 204
    assert main(["undo", str(tmp_path)]) == 0
    assert (tmp_path / NAME).read_text().count("by hand") == 1


def test_a_debt_is_on_the_disk_before_it_is_made(server: Server, tmp_path: Path) -> None:
    async def run() -> None:
        debts = Debts(tmp_path)
        settled = await debts.owe(undo(server, "/a"))
        (debt,) = Ledger(str(tmp_path)).owed()
        assert debt["what"] == "toxic at /a"
        await settled()
        assert Ledger(str(tmp_path)).owed() == []
        debts.close()

    anyio.run(run)


def test_a_folder_that_is_none_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["undo", str(tmp_path / "nothing")]) == 2
    assert "no folder of a run" in capsys.readouterr().err


def test_a_server_that_does_not_answer_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr("chaos.guardian.time.sleep", waits.append)
    ledger = Ledger(str(tmp_path))
    ledger.write({"id": 1, "what": "a", "method": "DELETE", "url": "http://127.0.0.1:1/a"})
    ((debt, reason),) = settle(ledger, "guardian")
    assert debt["id"] == 1
    assert "refused" in reason
    assert len(waits) == 4
