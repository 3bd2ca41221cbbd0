"""T6: restored bytes equal saved bytes, or the load fails."""

from __future__ import annotations

from typing import Any, ClassVar

from chaos.api import Invariant
from chaos.history import Event, History
from chaos.training import few, listed
from chaos.units import counted
from chaos.verdict import Verdict, failed, passed, unknown

_STATE = ("model", "optimizer")


class ContentIntegrity(Invariant, frozen=True, kw_only=True):
    """No rank goes on from bytes other than those that were saved.

    Every shard read is compared with what was written, by its digest. Bytes that differ break the promise when the rank
    then says it has loaded them; a load that was refused is right, and is evidence. Where a target reports no shards
    that it read, or no digests of them, the digests of model and optimizer take their place.
    """

    id: ClassVar[str] = "T6"
    needs: ClassVar[tuple[str, ...]] = ("checkpoint.loaded",)

    def check(self, history: History) -> Verdict:
        written: dict[Any, dict[Any, Event]] = {}
        reads: dict[str, list[Event]] = {}
        compared: list[int] = []
        refused: list[Event] = []
        blind = 0
        for event in history.of(
            "checkpoint.begun", "checkpoint.shard_written", "checkpoint.loading", "checkpoint.shard_read",
            "checkpoint.loaded", "checkpoint.damaged",
        ):  # fmt: skip
            shards = written.setdefault(event.get("generation"), {})
            if event.kind == "checkpoint.begun":
                written[event.get("generation")] = {n: e for n, e in shards.items() if e.t > event.t}
            elif event.kind == "checkpoint.shard_written":
                shards.setdefault(event.get("name"), event)  # what is written over it is not what was saved
            elif event.kind == "checkpoint.damaged":
                refused.append(event)
            elif event.kind == "checkpoint.loading":
                reads[event.source] = []
            elif event.kind == "checkpoint.shard_read":
                reads.setdefault(event.source, []).append(event)
            elif event.get("generation"):
                mine = [e for e in reads.pop(event.source, ()) if e.get("generation") == event.get("generation")]
                pairs = [(e, shards.get(e.get("name"))) for e in mine]
                if wrong := [(e, w) for e, w in pairs if w is not None and _differ(e, w)]:
                    return _loaded_wrong(event, wrong)
                known = [e.seq for e, w in pairs if w is not None and None not in (e.get("digest"), w.get("digest"))]
                part = len(known) < len(pairs)
                if not known:
                    broken, known = _by_state(history, event)
                    part = not known
                    if broken is not None:
                        return broken
                blind += part or not known
                compared += known
        if blind and not compared:
            return unknown("nobody said what was written and what was read")
        if not compared and not refused:
            return unknown("nothing was restored from a checkpoint")
        reason = f"{counted(len(compared), 'loaded piece equals', 'loaded pieces equal')} what was saved"
        if refused:
            what = listed([f"generation {e.get('generation')} ({e.get('name')})" for e in refused])
            reason += f"; refused as damaged: {what}"
        if blind:
            return unknown(
                f"{counted(blind, 'load')} could not be compared with what was saved; {reason}", few(compared)
            )
        return passed(reason, few([*compared, *(e.seq for e in refused)]))


def _differ(read: Event, written: Event) -> bool:
    return any(read.get(f) != written.get(f) for f in ("digest", "bytes") if None not in (read.get(f), written.get(f)))


def _loaded_wrong(load: Event, wrong: list[tuple[Event, Event]]) -> Verdict:
    names = listed([str(read.get("name")) for read, _ in wrong])
    return failed(
        f"rank {load.get('rank')} (epoch {load.get('epoch')}) loaded generation {load.get('generation')} "
        f"from bytes that differ from those written: {names}",
        few([*(w.seq for _, w in wrong), *(r.seq for r, _ in wrong), load.seq]),
    )


def _by_state(history: History, load: Event) -> tuple[Verdict | None, list[int]]:
    saved = history.last("checkpoint.saved", before=load.seq, generation=load.get("generation"))
    was, now = (saved.get("state") or {}) if saved else {}, load.get("state") or {}
    parts = [part for part in _STATE if part in was and part in now]
    if saved is None or not parts:
        return None, []
    if lost := [part for part in parts if was[part] != now[part]]:
        return failed(
            f"rank {load.get('rank')} (epoch {load.get('epoch')}) loaded generation {load.get('generation')} "
            f"with a different {listed(lost)}",
            (saved.seq, load.seq),
        ), []
    return None, [saved.seq, load.seq]
