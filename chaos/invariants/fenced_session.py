"""S12: a session is written by its owner only."""

from __future__ import annotations

from typing import ClassVar, Literal

from chaos.api import Invariant
from chaos.history import Event, History
from chaos.training import few
from chaos.units import counted
from chaos.verdict import Verdict, failed, passed, unknown

_RESOURCE = "session/"
_HOME = {"store": "store", "redis": "store"}  # roles of the members that end with what the store keeps


class FencedSession(Invariant, frozen=True, kw_only=True):
    """Who has lost a session writes nothing of it any more: an older owner's state never takes the newer one's place.

    Judged from `kv.written` (the token of who wrote, and the highest that whoever keeps the session knew) and from
    `write.rejected`. Whoever keeps it is not taken at its word: what it had taken from a newer owner, or had written as
    one, before an older one began to write (`seconds` before it was told) it knew. Two halves: an older owner tried to
    write, as one does that was frozen or cut off while somebody else went on, and was refused. Where nobody tried,
    nothing was proved and the verdict is unknown; with `attempt: optional` that is enough.
    """

    id: ClassVar[str] = "S12"
    needs: ClassVar[tuple[str, ...]] = ("kv.written", "write.rejected")
    attempt: Literal["required", "optional"] = "required"

    def check(self, history: History) -> Verdict:
        written = history.of("kv.written")
        newest: dict[object, Event] = {}
        for event in written:
            token, highest, session = event.get("token"), event.get("highest"), event.get("session")
            if token is None:
                return failed(f"{event.get('replica')} wrote session {session} without any token", (event.seq,))
            if highest is not None and token < highest:
                owner = newest.get(session)
                return failed(
                    f"{event.get('replica')} wrote session {session} with token {token} though {highest} had been "
                    "given to a newer owner",
                    (owner.seq, event.seq) if owner else (event.seq,),
                )
            older = session in newest and token < newest[session].get("token")
            if older and (verdict := _late(history, newest[session], event)):
                return verdict
            if session not in newest or token >= newest[session].get("token"):
                newest[session] = event
        refused = [e for e in history.of("write.rejected") if _stale(e)]
        if not written and not refused:
            return unknown("no session was written anywhere")
        if not refused and self.attempt == "required":
            return unknown("no older owner of a session tried to write", few([e.seq for e in written]))
        said = (
            f"{counted(len(refused), 'write')} of older owners, all refused; {counted(len(written), 'write')} under "
            "the newest token"
        )
        return passed(said, few([e.seq for e in refused]) or few([e.seq for e in written]))


def _late(history: History, newer: Event, event: Event) -> Verdict | None:
    """Of an older owner's write that is told after a newer one's: whether it was accepted after that, too.

    One that began before may have been: it was frozen before it could tell.
    """
    replica, session, keeper, token = (event.get(name) for name in ("replica", "session", "to", "token"))
    wrote = f"{replica} wrote session {session} with token {token}"
    if event.get("highest") is None or event.get("seconds") is None:
        lacks = "which of them was known where it was kept" if event.get("highest") is None else "when that began"
        return unknown(
            f"{wrote} after another one had with {newer.get('token')}, and nobody tells {lacks}",
            (newer.seq, event.seq),
        )
    began = event.t - event.get("seconds")
    for other in history.of("kv.written", session=session):
        knew = keeper in (other.get("to"), other.get("replica")) and other.get("token") > token
        if knew and other.t < began and not _lost(history, keeper, other, event):
            return failed(
                f"{wrote} {began - other.t:.2f} s after {keeper} had known {other.get('token')}, and says that it knew "
                f"of none above {event.get('highest')}",
                few([other.seq, event.seq]),
            )
    return None


def _lost(history: History, keeper: object, known: Event, event: Event) -> bool:
    """Whether who keeps it ended in between: a new process, or an empty store, knows nothing of what was."""
    return any(
        known.seq < gone.seq < event.seq and keeper in (gone.get("member"), _HOME.get(str(gone.get("role"))))
        for gone in history.of("member.exited")
    )


def _stale(refused: Event) -> bool:
    """Of a session, and with a token that is really older: a fence that refuses its owner as well is a wall."""
    token, highest = refused.get("token"), refused.get("highest")
    mine = str(refused.get("resource", "")).startswith(_RESOURCE)
    return mine and token is not None and highest is not None and bool(token < highest)
