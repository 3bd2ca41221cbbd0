"""The journal: complete, honest about damage, never in the way."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from chaos.errors import JournalError
from chaos.history import Event
from chaos.journal import Journal, find_secrets, read, without_secrets


def event(seq: int, kind: str = "step.completed", **data: Any) -> Event:
    kind = "run.started" if seq == 0 else kind
    return Event(seq=seq, t=seq / 10, wall=1.7e9 + seq, source="worker-0", kind=kind, data=data)


def write(path: Path, count: int) -> list[Event]:
    journal = Journal(path)
    events = [event(n, step=n) for n in range(count)]
    for one in events:
        journal.append(one)
    journal.close()
    return events


def test_what_was_written_is_read(tmp_path: Path) -> None:
    events = write(tmp_path / "j", 100)
    assert list(read(tmp_path / "j")) == events


def test_what_json_cannot_carry_is_written_as_malformed(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    journal.append(event(0))
    odd = "n\ud800"
    journal.append(Event(seq=1, t=0.1, wall=1.7e9, source=odd, kind=f"{odd}.{odd}", data={odd: 1 << 70}))
    journal.close()
    assert journal.broken == "closed"
    last = list(read(tmp_path / "j"))[-1]
    assert (last.source, last.kind) == ("n\\ud800", "n\\ud800.n\\ud800")
    assert set(last.data) == {"malformed"}


def test_an_event_is_in_the_file_before_the_next_line_of_code(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    journal.append(event(0))
    assert [e.seq for e in read(tmp_path / "j")] == [0]
    journal.close()


def test_a_run_never_writes_over_another(tmp_path: Path) -> None:
    write(tmp_path / "j", 3)
    with pytest.raises(FileExistsError):
        Journal(tmp_path / "j")


def test_a_journal_cut_anywhere_reads_up_to_its_last_whole_event(tmp_path: Path) -> None:
    events = write(tmp_path / "j", 4)
    whole = (tmp_path / "j").read_bytes()
    ends = [n + 1 for n, byte in enumerate(whole) if byte == ord("\n")]
    for cut in range(len(whole) + 1):
        (tmp_path / "cut").write_bytes(whole[:cut])
        complete = sum(end - 1 <= cut for end in ends)
        assert list(read(tmp_path / "cut")) == events[:complete]


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda lines: [lines[0], b'{"seq": 1, "t"\n', lines[2]], r"j:2: not an event"),
        (lambda lines: [lines[0], lines[2]], r"j:2: event 2 stands where 1 should"),
        (lambda lines: [lines[0], b"\xff\xfe\n", lines[2]], r"j:2: not an event"),
        (lambda lines: [lines[0], b"\n", lines[1]], r"j:2: not an event"),
        (lambda lines: lines[1:], r"j:1: no journal: it begins with step.completed"),
        (lambda lines: [b"hello\n"], r"j:1: not an event"),
    ],
)
def test_damage_before_the_end_is_an_error_with_its_line(tmp_path: Path, damage: Any, says: str) -> None:
    write(tmp_path / "j", 3)
    (tmp_path / "j").write_bytes(b"".join(damage((tmp_path / "j").read_bytes().splitlines(keepends=True))))
    with pytest.raises(JournalError, match=says):
        list(read(tmp_path / "j"))


@pytest.mark.parametrize("edit", [(b"fault.failed", b"fault.landed"), (b'"t":0.1', b'"t":0.3')])
def test_an_event_that_was_edited_in_afterwards_is_damage(tmp_path: Path, edit: tuple[bytes, bytes]) -> None:
    journal = Journal(tmp_path / "j")
    for seq, kind in enumerate(("run.started", "fault.failed", "run.ended")):
        journal.append(Event(seq=seq, t=0.1 * seq, wall=1.7e9, source="harness", kind=kind, data={}))
    journal.close()
    assert [e.kind for e in read(tmp_path / "j")] == ["run.started", "fault.failed", "run.ended"]
    whole = (tmp_path / "j").read_bytes()
    assert edit[0] in whole
    (tmp_path / "j").write_bytes(whole.replace(*edit))
    with pytest.raises(JournalError, match="j:3: a line before it was changed after the run had ended"):
        list(read(tmp_path / "j"))


def test_a_missing_file_is_a_journal_error(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="No such file"):
        list(read(tmp_path / "none"))


def test_a_failed_write_breaks_the_journal_and_never_raises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(tmp_path / "j")
    journal.append(event(0))

    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        journal.append(event(1))
    assert "No space left" in str(journal.broken)
    journal.append(event(2))  # the disk has room again, but a gap is worse than an end
    journal.close()
    assert [e.seq for e in read(tmp_path / "j")] == [0]


def test_a_line_written_in_part_is_the_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(tmp_path / "j")
    journal.append(event(0))
    write = os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda file, line: write(file, line[:20]))
        journal.append(event(1))
    journal.append(event(2))
    assert journal.broken is not None
    journal.close()
    assert [e.seq for e in read(tmp_path / "j")] == [0]


def test_secrets_of_settings_and_environment_are_masked_wherever_they_stand(tmp_path: Path) -> None:
    secrets = find_secrets(
        {
            "api_token": "hunter2-hunter2",
            "nodes": 4,
            "monkey": "ordinary",
            "env": {"AWS_SECRET_ACCESS_KEY": 'with"quote', "PASSWORD": "abc", "TOKENIZERS_PARALLELISM": "false"},
        }
    )
    assert secrets == {"hunter2-hunter2", 'with"quote'}
    journal = Journal(tmp_path / "j", secrets)
    journal.append(event(0, settings={"api_token": "hunter2-hunter2"}, lines=['login with"quote', 3], token=3))
    journal.close()
    text = (tmp_path / "j").read_text()
    assert "hunter2" not in text
    assert "quote" not in text
    assert next(read(tmp_path / "j")).data == {"settings": {"api_token": "***"}, "lines": ["login ***", 3], "token": 3}


def test_a_short_secret_is_masked_where_its_name_stands() -> None:
    settings = {"password": "abc", "tokens": 4096, "hub": {"key": "k"}, "nodes": 4, "mode": "abc"}
    assert without_secrets(settings) == {
        "password": "***",
        "tokens": 4096,
        "hub": {"key": "***"},
        "nodes": 4,
        "mode": "abc",
    }
    assert find_secrets({"password": "abc"}) == frozenset()
    assert find_secrets({"A_TOKEN": "short"}, shortest=8) == frozenset()


def test_a_name_that_says_secret_is_one() -> None:
    secret = ["apiKey", "API_KEY", "PGPASSWORD", "db-passwd", "SSH_KEYS", "AUTH_TOKEN_2", "client_secret_value"]
    plain = ["monkey", "keyboard", "TOKENIZERS_PARALLELISM", "nodes", "KEYCLOAK", "turkeys"]
    assert find_secrets({name: f"value of {name}" for name in secret + plain}) == {f"value of {n}" for n in secret}


@pytest.mark.parametrize("value", [2**70, "\ud800", {1: object()}, float("nan"), Path("/x")])
def test_what_json_cannot_carry_does_not_stop_a_run(tmp_path: Path, value: Any) -> None:
    journal = Journal(tmp_path / "j")
    journal.append(event(0, value=value))
    journal.append(event(1))
    journal.close()
    assert journal.broken == "closed"
    assert [e.seq for e in read(tmp_path / "j")] == [0, 1]


def test_an_ordinary_event_takes_less_than_250_bytes(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    journal.append(event(0))
    samples = [51234, 1821, 99112]
    journal.append(
        event(1, step=118, rank=3, world=4, epoch=7, loss="2.3456789012345678", samples=samples, data_epoch=0)
    )
    journal.close()
    assert (tmp_path / "j").stat().st_size < 250 + 100
