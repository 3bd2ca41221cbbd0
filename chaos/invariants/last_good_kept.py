"""T4: at every instant at least one committed, loadable generation exists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from chaos.api import Invariant
from chaos.history import Event, History
from chaos.training import Generations, few
from chaos.units import counted
from chaos.verdict import Verdict, failed, passed, unknown


class LastGoodKept(Invariant, frozen=True, kw_only=True):
    """From the first commit on there is always a good generation, and retention never removes the newest one.

    Damage that strikes the only generation there ever was breaks no promise of the target: that is unknown. It does
    when retention had removed a good older one.
    """

    id: ClassVar[str] = "T4"
    needs: ClassVar[tuple[str, ...]] = ("checkpoint.committed",)

    def check(self, history: History) -> Verdict:
        state = Generations()
        removed: list[Event] = []
        doubt: Verdict | None = None
        evidence: list[int] = []
        for event in history.of(*Generations.KINDS):
            if event.kind == "checkpoint.committed":
                state.take(event)
                evidence.append(event.seq)
                continue
            generation = event.get("generation")
            commit, newest = state.committed.get(generation), state.newest
            state.take(event)
            if commit is None:
                continue
            if event.kind == "checkpoint.damaged":
                if not state.committed and removed:
                    return failed(
                        f"generation {generation} was damaged and no other was left: retention had removed "
                        f"generation {removed[-1].get('generation')} while it was good",
                        _seqs(commit, removed, event),
                    )
                if not state.committed:
                    doubt = unknown(
                        f"generation {generation} was damaged and none is left; retention removed none",
                        _seqs(commit, removed, event),
                    )
                continue
            how = event.kind.removeprefix("checkpoint.")
            if generation == newest:
                left = f"generation {state.newest} is the newest left" if state.committed else "none is left"
                reason = f"the newest good generation, {generation}, was {how}: {left}"
                return failed(reason, _seqs(commit, removed, event))
            removed.append(event)
            evidence.append(event.seq)
        if doubt is not None:
            return doubt
        if not evidence:
            return unknown("nothing was committed")
        each = counted(len(evidence), "commit or removal", "commits and removals")
        reason = f"after each of {each} the newest good generation was there"
        return passed(reason, few(evidence))


def _seqs(commit: Event, removed: Sequence[Event], event: Event) -> list[int]:
    return sorted({commit.seq, *few([e.seq for e in removed]), event.seq})
