"""T2: a generation without a commit record is never restored."""

from __future__ import annotations

from typing import Any, ClassVar

from chaos.api import Invariant
from chaos.history import Event, History
from chaos.training import few
from chaos.units import counted
from chaos.verdict import Verdict, failed, passed, unknown

_COMMITS = ("checkpoint.committed", "checkpoint.aborted", "checkpoint.removed")
_LOADS = ("checkpoint.loading", "checkpoint.loaded", "group.formed")


class NoUncommittedRestore(Invariant, frozen=True, kw_only=True):
    """No group and no rank ever restores a generation that was not committed before.

    To begin to load is enough to break it: only a commit record makes a directory a checkpoint. A generation that was
    aborted or removed since its commit counts as not committed.
    """

    id: ClassVar[str] = "T2"
    needs: ClassVar[tuple[str, ...]] = ("checkpoint.committed", "checkpoint.loaded")

    def check(self, history: History) -> Verdict:
        commits: dict[Any, Event] = {}
        ended: dict[Any, Event] = {}
        evidence: list[int] = []
        restores = 0
        for event in history.of(*_COMMITS, *_LOADS):
            generation = event.get("generation")
            if event.kind == "checkpoint.committed":
                commits[generation] = event
                ended.pop(generation, None)
            elif event.kind in _COMMITS:
                ended[generation] = event
            elif generation:
                if broken := self._uncommitted(history, event, commits, ended):
                    return broken
                restores += event.kind == "checkpoint.loaded"
                evidence += [commits[generation].seq, event.seq] if generation in commits else [event.seq]
        if not evidence:
            return unknown("nothing was restored from a checkpoint")
        return passed(
            f"only generations committed before were chosen or loaded ({counted(restores, 'load')})", few(evidence)
        )

    def _uncommitted(
        self, history: History, load: Event, commits: dict[Any, Event], ended: dict[Any, Event]
    ) -> Verdict | None:
        generation = load.get("generation")
        who = "the group" if load.kind == "group.formed" else f"rank {load.get('rank')}"
        verb = "began to load" if load.kind == "checkpoint.loading" else "restored"
        if (end := ended.get(generation)) is not None and end.t <= load.t:
            how = end.kind.removeprefix("checkpoint.")
            return failed(
                f"{who} {verb} generation {generation}, which had been {how} (epoch {load.get('epoch')})",
                sorted({e.seq for e in (commits.get(generation), end, load) if e is not None}),
            )
        if generation in commits:
            return None
        later = history.first("checkpoint.committed", after=load.seq, generation=generation)
        if later is not None and later.t < load.t:
            return None  # it happened before, another socket was read first
        when = "was committed only later" if later else "was never committed"
        return failed(
            f"{who} {verb} generation {generation}, which {when} (epoch {load.get('epoch')})",
            (load.seq, later.seq) if later else (load.seq,),
        )
