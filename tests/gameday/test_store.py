"""The state on the disk, and how a process is woken to look at it."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from chaos.errors import Exit, GameDayError
from chaos.gameday.agenda import draw
from chaos.gameday.desk import Desk
from chaos.gameday.records import Attempt, DayRecord, Finding
from chaos.gameday.store import Store
from chaos.gameday.terms import Approvals, Blackout, Channel, Hours, Timetable
from chaos.gameday.wake import Bell, bell_of, ring

from .fakes import piece, plan


def begun(store: Store) -> DayRecord:
    whole = plan(
        timetable=Timetable(cron="0 10 * * fri"), blackouts=(Blackout(begin="2026-12-20", end="2026-12-21"),),
        hours=Hours(), ladder=("member",), approvals=Approvals(before=("start",)), announce=(Channel(file="x"),),
    )  # fmt: skip
    return store.begin(whole, draw(whole, 1), planned=1.0, started=2.0, folder="/d")


def test_a_day_comes_back_from_the_disk_as_it_was(tmp_path: Path) -> None:
    with Store(tmp_path / "state.sqlite", write=True) as store:
        record = begun(store)
        store.intend(record.id, Attempt(number=1, attempt=1, folder="/d/01-a", intended=3.0))
        store.started("/d/01-a", 4711, "boot:1", 4.0)
        finding = Finding(complete=True, exit=Exit.HEAL_FAILED, headline="x", undo=("do that",))
        store.ended("/d/01-a", finding, 5.0, orphaned=True)
        story = store.story(record.id)
    with Store(tmp_path / "state.sqlite") as again:
        assert again.story(record.id) == story
    assert story.attempts == (
        Attempt(
            number=1, attempt=1, folder="/d/01-a", intended=3.0, pid=4711, born="boot:1", begun=4.0, ended=5.0,
            finding=finding, orphaned=True,
        ),
    )  # fmt: skip
    assert story.day.plan.pieces == tuple(map(piece, "abc"))


def test_one_folder_belongs_to_one_attempt(tmp_path: Path) -> None:
    with Store(tmp_path / "state.sqlite", write=True) as store:
        record = begun(store)
        store.intend(record.id, Attempt(number=1, attempt=1, folder="/d/01-a", intended=3.0))
        with pytest.raises(GameDayError, match="UNIQUE"):
            store.intend(record.id, Attempt(number=1, attempt=2, folder="/d/01-a", intended=3.0))
        with pytest.raises(GameDayError, match="UNIQUE"):
            store.intend(record.id, Attempt(number=1, attempt=1, folder="/d/other", intended=3.0))


def test_a_file_that_is_no_state_is_refused_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no database, whatever its name says")
    with pytest.raises(GameDayError, match="not a database"):
        Store(tmp_path / "text")
    with pytest.raises(GameDayError, match="no state of a game day"):
        Store(tmp_path / "missing")
    sqlite3.connect(tmp_path / "newer").execute("pragma user_version = 9").connection.close()
    with pytest.raises(GameDayError, match="newer version of chaos"):
        Store(tmp_path / "newer", write=True)


def test_of_two_that_make_the_same_state_one_waits_and_finds_it_made(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    with ThreadPoolExecutor(3) as pool, closing(sqlite3.connect(path, isolation_level=None)) as holder:
        holder.execute("begin immediate")  # all three find an empty file, and wait for this
        stores = [pool.submit(lambda: Store(path, write=True).close()) for _ in range(3)]
        wait(stores, 0.2)
        holder.execute("rollback")
        for opened in stores:
            opened.result()
    with Store(path) as store:
        assert store.days() == []


def test_orders_are_handled_once_and_in_order(tmp_path: Path) -> None:
    with Store(tmp_path / "state.sqlite", write=True) as store:
        record = begun(store)
        for what in ("pause", "note", "resume", "pause"):
            store.order(what, "why", "ada", 1.0)
        desk = Desk(store, lambda: 2.0)
        desk.day = record.id
        desk.look()
        assert store.orders() == []
        assert desk.paused
        assert [line.kind for line in store.lines(record.id)] == [
            "order.pause", "note.taken", "order.resume", "order.pause"
        ]  # fmt: skip
        desk.look()
        assert len(store.lines(record.id)) == 4


def test_an_abort_without_a_day_ends_nothing_that_comes_later(tmp_path: Path) -> None:
    with Store(tmp_path / "state.sqlite", write=True) as store:
        store.order("abort", "", "ada", 1.0)
        desk = Desk(store, lambda: 2.0)
        desk.look()
        assert desk.aborted == ""
        assert [line.text for line in store.lines()] == ["abort by ada"]


@pytest.mark.anyio
async def test_a_ring_is_heard_at_once(tmp_path: Path) -> None:
    state, heard = tmp_path / "state.sqlite", anyio.Event()
    assert not ring(state), "nobody is there"
    with Bell(state) as bell:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(bell.heed, heard.set)
            assert ring(state)
            with anyio.fail_after(5):
                await heard.wait()
            tasks.cancel_scope.cancel()
    assert not ring(state)
    assert not bell_of(state).exists()


def test_a_pipe_that_a_killed_process_left_is_nobody(tmp_path: Path) -> None:
    state = tmp_path / "state.sqlite"
    bell = Bell(state)
    left = bell_of(state)
    with bell:
        left.rename(tmp_path / "kept")
    (tmp_path / "kept").rename(left)
    assert not ring(state)
    with Bell(state):
        file = os.open(left, os.O_RDWR | os.O_NONBLOCK)
        room = fcntl.fcntl(file, fcntl.F_SETPIPE_SZ, 4096)
        for _ in range(room + 10):
            assert ring(state), "a full pipe has rung often enough"
        os.close(file)


@pytest.fixture
def anyio_backend() -> str:
    """Real time: this is a real pipe."""
    return "asyncio"
