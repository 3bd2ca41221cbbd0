"""T5: recovery picks the newest committed generation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from chaos.api import Invariant
from chaos.history import Event, History
from chaos.training import Group, few, generations_before, lineage, listed
from chaos.verdict import Verdict, failed, passed, unknown


class NewestGoodRestored(Invariant, frozen=True, kw_only=True):
    """Every group after the first restores the newest generation that was committed and not known to be damaged.

    What was committed before the re-formation was declared must be used; what was committed since may be. Damage that
    was reported before the group was formed excuses an older one, and so does a corruption that was detected; neither
    excuses a start from nothing while a good one is left. The first group of a run is a start, not a recovery. What the
    ranks say they loaded counts beside what the group says. A group that goes on with live state must not be behind
    the newest generation, and its ranks must hold that state, and say so (`state.resumed`).
    """

    id: ClassVar[str] = "T5"
    needs: ClassVar[tuple[str, ...]] = ("group.formed", "checkpoint.committed")

    def check(self, history: History) -> Verdict:
        groups = lineage(history).groups[1:]
        loading: dict[object, int] = {}
        loaded: dict[object, list[Event]] = {}
        for event in history.of("checkpoint.loaded"):
            loaded.setdefault(event.get("epoch"), []).append(event)
        for event in history.of("checkpoint.loading"):
            loading.setdefault(event.get("epoch"), event.seq)
        starts = [min(g.forming.seq if g.forming else g.seq, loading.get(g.epoch, g.seq)) for g in groups]
        known_then = dict(generations_before(history, sorted(set(starts))))
        known_now = dict(generations_before(history, [g.seq for g in groups]))
        evidence: list[int] = []
        silent: list[Verdict] = []
        for group, start in zip(groups, starts, strict=True):
            now = known_now[group.seq]
            must = {g: e for g, e in known_then[start].items() if g in now}
            broken = self._older(history, group, must, now)
            broken = broken or self._loaded_older(history, group, loaded.get(group.epoch, ()))
            if broken is not None:
                return broken
            silent += _silent(history, group)
            if must or group.generation:
                evidence += [now[group.generation].seq, group.seq] if group.generation in now else [group.seq]
        if not evidence:
            return unknown("no group was formed again after a commit" if groups else "the group was formed only once")
        for verdict in silent:
            return verdict
        return passed("each re-formation restored the newest good generation", few(evidence))

    def _older(
        self, history: History, group: Group, must: Mapping[int, Event], now: Mapping[int, Event]
    ) -> Verdict | None:
        newest = max(must, default=0)
        if group.live and group.generation >= newest:
            return self._behind(group, must) or _elsewhere(history, group)
        if group.generation in now and (step := now[group.generation].get("step")) not in (None, group.step):
            return failed(
                f"epoch {group.epoch} says generation {group.generation} at step {group.step}, "
                f"which was committed at step {step}",
                (now[group.generation].seq, group.seq),
            )
        if group.generation >= newest or (group.generation and self._excused(history, group)):
            return None
        commit = must[newest]
        if not group.generation:
            what = f"epoch {group.epoch} began afresh at step {group.step}"
        else:
            what = f"epoch {group.epoch} restored generation {group.generation} (step {group.step})"
        return failed(
            f"{what} though generation {newest} (step {commit.get('step')}) was committed and not known to be damaged",
            (commit.seq, group.seq),
        )

    def _behind(self, group: Group, must: Mapping[int, Event]) -> Verdict | None:
        """What its members held is no reason to go back behind what was committed."""
        commit = must.get(group.generation)
        if commit is None or group.step >= (commit.get("step") or 0):
            return None
        return failed(
            f"epoch {group.epoch} went on from step {group.step} though generation {group.generation} "
            f"(step {commit.get('step')}) was committed",
            (commit.seq, group.seq),
        )

    def _loaded_older(self, history: History, group: Group, loads: Sequence[Event]) -> Verdict | None:
        damaged = history.first("checkpoint.damaged", generation=group.generation)
        for load in loads:
            older = (load.get("generation") or 0) < group.generation
            if older and load.seq > group.seq and not (damaged is not None and damaged.seq < load.seq):
                return failed(
                    f"rank {load.get('rank')} of epoch {group.epoch} restored generation {load.get('generation')} "
                    f"though its group went on from generation {group.generation}, which nobody said was damaged",
                    (group.seq, load.seq),
                )
        return None

    def _excused(self, history: History, group: Group) -> bool:
        before = lineage(history).groups[group.index - 1].seq
        return any(before < e.seq < group.seq for e in history.of("failure.detected", **{"class": "corruption"}))


def _resumed(history: History, group: Group) -> list[Event]:
    before = lineage(history).groups[group.index - 1].seq
    return [e for e in history.of("state.resumed", epoch=group.epoch) if e.seq > before and e.get("step") is not None]


def _elsewhere(history: History, group: Group) -> Verdict | None:
    """A rank that holds the state of another step than its group is said to go on from."""
    for event in _resumed(history, group):
        if event.get("step") != group.step:
            return failed(
                f"epoch {group.epoch} is said to go on from what its members held after step {group.step}, and rank "
                f"{event.get('rank')} held that after step {event.get('step')}",
                (group.seq, event.seq),
            )
    return None


def _silent(history: History, group: Group) -> list[Verdict]:
    """Of live state nobody but its ranks knows: those that worked with it must have said what they held."""
    if not group.live:
        return []
    told = {e.get("rank") for e in _resumed(history, group)}
    worked = {rank for step in lineage(history).ordered(group.index) for rank in step.ranks}
    if not worked - told:
        return []
    who = listed(sorted(worked - told, key=str))
    return [unknown(f"nobody knows what the ranks {who} of epoch {group.epoch} went on with", (group.seq,))]
