"""T9: a stale epoch cannot write, commit, or form a group."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate, pairwise
from typing import Any, ClassVar, Literal

from chaos.api import Invariant
from chaos.history import Event, History
from chaos.training import few, lineage
from chaos.units import counted
from chaos.verdict import Verdict, failed, passed, unknown

# A write that was checked just before a new epoch was issued may be recorded just after it, seconds.
_RACE = 0.05


class FencedWriter(Invariant, frozen=True, kw_only=True):
    """No write with a token below the highest epoch is accepted, and every re-formation raises the epoch.

    Where epochs are issued (`epoch.issued`), no write and no group has one beyond them; where nobody tells of any, nor
    of the `highest` that was known at a write, there is nothing to hold a token against, and the verdict is unknown.

    Two halves: the stale attempt was made, and it was refused. Without a stale write nothing was proved, and the
    verdict is unknown; with `attempt: any` a stale join or heartbeat that was refused is enough, with `optional`
    nothing is asked. Steps that a fenced-off rank still completes are lost work, no write.
    """

    id: ClassVar[str] = "T9"
    needs: ClassVar[tuple[str, ...]] = ("write.accepted", "write.rejected")
    attempt: Literal["required", "any", "optional"] = "required"

    def check(self, history: History) -> Verdict:
        issued: Event | None = None
        highest = 0
        accepted: list[int] = []
        if invented := _invented(history):
            return invented
        for event in history.of("epoch.issued", "lease.granted", "write.accepted"):
            if event.kind != "write.accepted":
                if (event.get("epoch") or 0) > highest:
                    highest, issued = event.get("epoch"), event
                continue
            token, claimed = event.get("token"), event.get("highest")
            if token is None:
                return failed(f"a write to {event.get('resource')} without any token was accepted", (event.seq,))
            if token < max(highest, claimed or 0) and not self._raced(event, issued):
                return self._stale(event, max(highest, claimed or 0), issued)
            highest = max(highest, token)
            accepted.append(event.seq)
        if broken := self._reused(history) or _issued_again(history):
            return broken
        writes = [e for e in history.of("write.rejected", reason="stale-epoch") if _was_stale(e)]
        others = [e for e in history.of("epoch.rejected") if _was_stale(e)]
        if not accepted and not writes and not others:
            return unknown("nobody tried to write anything")
        if not accepted and history.first("checkpoint.committed"):
            return unknown("something was committed, but no accepted write is on record")
        if accepted and not _told(history):
            return unknown("nobody tells which epochs were issued, or known where was written", few(accepted))
        missing = {"required": not writes, "any": not writes and not others, "optional": False}[self.attempt]
        if missing:
            said = (
                f" ({counted(len(others), 'stale join or heartbeat was', 'stale joins or heartbeats were')} refused)"
                if others
                else ""
            )
            return unknown(f"nobody with an old epoch tried to write, so the fence was not tested{said}", few(accepted))
        reason = (
            f"{counted(len(writes), 'stale write')} and "
            f"{counted(len(others), 'stale join or heartbeat', 'stale joins or heartbeats')}, all refused; "
            f"{counted(len(accepted), 'write')} accepted, each under the highest epoch"
        )
        if late := _lost_work(history):
            reason += f"; {counted(late, 'step of superseded epochs was', 'steps of superseded epochs were')} lost work"
        return passed(reason, few([e.seq for e in (*writes, *others)]) or few(accepted))

    def _raced(self, write: Event, issued: Event | None) -> bool:
        claimed = write.get("highest")
        return (
            claimed is not None
            and write.get("token") >= claimed
            and issued is not None
            and (write.t - issued.t < _RACE)
        )

    def _stale(self, write: Event, highest: Any, issued: Event | None) -> Verdict:
        return failed(
            f"{write.get('member') or 'a stale writer'} wrote {write.get('resource')} with the token of epoch "
            f"{write.get('token')} though epoch {highest} had been issued: not fenced",
            (issued.seq, write.seq) if issued is not None else (write.seq,),
        )

    def _reused(self, history: History) -> Verdict | None:
        groups = lineage(history).groups
        for before, group in pairwise(groups):
            if group.epoch is not None and before.epoch is not None and group.epoch <= before.epoch:
                return failed(
                    f"the epoch was not raised: the group was formed again under epoch {group.epoch} "
                    f"after epoch {before.epoch}",
                    (before.seq, group.seq),
                )
        return None


def _told(history: History) -> bool:
    """Whether there is anything to hold a token against."""
    issued = history.first("epoch.issued") or history.first("lease.granted")
    return issued is not None or any(e.get("highest") is not None for e in history.of("write.accepted"))


def _invented(history: History) -> Verdict | None:
    """An epoch beyond all that were issued by then: who makes its own is fenced by nobody."""
    if not history.first("epoch.issued"):
        return None
    known = (e for e in history.of("epoch.issued", "lease.granted") if e.get("epoch") is not None)
    issued = sorted(known, key=lambda e: e.t)
    times, highest = [e.t for e in issued], list(accumulate((e.get("epoch") for e in issued), max))
    for event in history.of("write.accepted", "group.formed"):
        wrote = event.kind == "write.accepted"
        epoch = event.get("token" if wrote else "epoch")
        before = bisect_left(times, event.t + _RACE)
        if epoch is None or epoch <= (highest[before - 1] if before else 0):
            continue
        what = f"{event.get('member') or 'somebody'} wrote {event.get('resource')}" if wrote else "a group was formed"
        last = [issued[before - 1].seq] if before else []
        return failed(f"{what} under epoch {epoch}, which nobody had issued", few([*last, event.seq]))
    return None


def _issued_again(history: History) -> Verdict | None:
    """Two holders of one number cannot be told apart; so says a store that forgot what it had issued."""
    for before, event in pairwise(history.of("epoch.issued")):
        if (event.get("epoch") or 0) <= (before.get("epoch") or 0):
            return failed(
                f"epoch {event.get('epoch')} was issued to {event.get('holder')} although epoch {before.get('epoch')} "
                f"had been issued to {before.get('holder')} before",
                (before.seq, event.seq),
            )
    return None


def _was_stale(refused: Event) -> bool:
    """With a token that is really older: a fence that refuses the newest epoch as well is a wall."""
    token, highest = refused.get("token"), refused.get("highest")
    return token is not None and highest is not None and bool(token < highest)


def _lost_work(history: History) -> int:
    line = lineage(history)
    return sum(
        execution.last.seq > newer.seq
        for group, newer in pairwise(line.groups)
        for execution in line.runs[group.index].values()
    )
