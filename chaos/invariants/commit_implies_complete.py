"""T1: a commit record exists only after every shard it names is durable."""

from __future__ import annotations

from typing import Any, ClassVar

from chaos.api import Invariant
from chaos.history import Event, History
from chaos.training import few, listed
from chaos.units import counted
from chaos.verdict import Verdict, failed, passed, unknown

_POWER_CUT, _FAILED_SYNC = "storage.power-cut", "storage.failed-fsync"
_DISK = (_POWER_CUT, _FAILED_SYNC, "storage.torn-write", "storage.lost-write")


class CommitImpliesComplete(Invariant, frozen=True, kw_only=True):
    """A checkpoint is committed only after every shard that it names, and one of each rank, is durable.

    Judged at each `checkpoint.committed`: the shards that the store had written by then, without those that an abort
    took away, against the names in the commit and the ranks of the round. A commit stands for one content: a second one
    of the same generation must repeat the first. What a power cut, a torn or a lost write takes from a committed
    generation had not been durable, whatever its store said; nor was what it had written before a sync that failed.
    """

    id: ClassVar[str] = "T1"
    needs: ClassVar[tuple[str, ...]] = ("checkpoint.committed", "checkpoint.shard_written")

    def check(self, history: History) -> Verdict:
        written: dict[Any, dict[str, Event]] = {}
        world: dict[Any, int | None] = {}
        evidence: list[int] = []
        commits = 0
        standing: dict[Any, Event] = {}
        for event in history.of(
            "checkpoint.begun", "checkpoint.shard_written", "checkpoint.aborted", "checkpoint.removed",
            "checkpoint.committed",
        ):  # fmt: skip
            generation = event.get("generation")
            shards = written.setdefault(generation, {})
            if event.kind == "checkpoint.begun":
                world[generation] = event.get("world")
            elif event.kind == "checkpoint.shard_written":
                shards[event.get("name")] = event
            elif event.kind == "checkpoint.removed":
                standing.pop(generation, None)
            elif event.kind == "checkpoint.aborted":
                standing.pop(generation, None)
                # Who aborts may be recorded late: only what was written before it happened is gone.
                written[generation] = {n: e for n, e in shards.items() if e.t > event.t}
            else:
                first = standing.setdefault(generation, event)
                broken = _another(first, event) or self._incomplete(history, event, shards, world.get(generation))
                if broken is not None:
                    return broken
                commits += 1
                evidence += [*(e.seq for e in shards.values()), event.seq]
        if not commits:
            return unknown("nothing was committed")
        if broken := _lost_by_its_disk(history):
            return broken
        return passed(f"{counted(commits, 'commit')}, each after all of its shards were durable", few(evidence))

    def _incomplete(
        self, history: History, commit: Event, shards: dict[str, Event], world: int | None
    ) -> Verdict | None:
        generation = commit.get("generation")
        what = f"generation {generation} (step {commit.get('step')}) was committed"
        named = [_named(shard) for shard in commit.get("shards") or ()]
        if missing := [name for name, _ in named if name not in shards]:
            later = [
                e
                for e in history.of("checkpoint.shard_written", generation=generation)
                if e.seq > commit.seq and e.get("name") in missing
            ]
            when = f", {len(later)} of them written later" if later else ", never written after that"
            return failed(
                f"{what} although {len(missing)} of {counted(len(named), 'shard was', 'shards were')} not durable: "
                f"{listed(missing)}{when}",
                (commit.seq, *few([e.seq for e in later])),
            )
        wrong = [name for name, digest in named if digest is not None and digest != shards[name].get("digest")]
        if wrong:
            return failed(
                f"{what} with digests that are not those written: {listed(wrong)}",
                (*few([shards[n].seq for n in wrong]), commit.seq),
            )
        held = {shards[name].get("rank") for name, _ in named}
        if not named or (absent := [rank for rank in range(world or 0) if rank not in held]):
            who = f"without a shard of rank {listed(absent)} of {world}" if named else "though it names no shard"
            return failed(f"{what} {who}", (*few([e.seq for e in shards.values()]), commit.seq))
        return None


def _lost_by_its_disk(history: History) -> Verdict | None:
    """Damage to what was committed, when no fault touched what is stored but those that take what is not durable: a
    power cut after the commit, a write that was torn or lost, a sync that had failed before the commit."""
    landed = [e for e in history.of("fault.landed") if str(e.get("kind")).startswith(("storage.", "checkpoint."))]
    for damage in history.of("checkpoint.damaged"):
        before = [e for e in landed if e.seq < damage.seq]
        if not before or any(e.get("kind") not in _DISK for e in before):
            continue
        commit = history.first("checkpoint.committed", generation=damage.get("generation"))
        if commit is None or commit.seq > damage.seq:
            continue
        causes = [e for e in before if _takes(e, commit)]
        if causes:
            return failed(
                f"generation {damage.get('generation')} was committed, and after {causes[0].get('kind')} its "
                f"{damage.get('name')} was found damaged ({damage.get('reason')}): it had not been durable",
                sorted({commit.seq, causes[0].seq, damage.seq}),
            )
    return None


def _takes(fault: Event, commit: Event) -> bool:
    """Whether it took what that commit had to have on disk."""
    after = fault.seq > commit.seq
    return {_POWER_CUT: after, _FAILED_SYNC: not after}.get(str(fault.get("kind")), True)


def _another(first: Event, commit: Event) -> Verdict | None:
    differing = [f for f in ("step", "digest", "shards") if first.get(f) != commit.get(f)]
    if not differing:
        return None
    return failed(
        f"generation {commit.get('generation')} was committed twice with a different {listed(differing)}",
        (first.seq, commit.seq),
    )


def _named(shard: Any) -> tuple[str, str | None]:
    if isinstance(shard, str):
        return shard, None
    return shard["name"], shard.get("digest")
