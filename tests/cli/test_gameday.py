"""Orders from another terminal, whatever was typed."""

from __future__ import annotations

from pathlib import Path

from chaos.cli import main
from chaos.errors import Exit
from chaos.gameday.store import Store


def test_a_note_may_hold_bytes_that_are_no_text(tmp_path: Path) -> None:
    state = tmp_path / "day.sqlite"
    with Store(state, write=True) as store:
        typed = b"a \xff\x1b[31m b".decode(errors="surrogateescape")
        assert main(["gameday", "note", "--state", str(state), "--by", typed, typed]) == Exit.PASS
        (order,) = store.orders()
    assert (order.text, order.by) == ("a  [31m b", "a  [31m b")
