"""T8: no sample is lost or duplicated across a restart or a resize."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from chaos.api import Invariant
from chaos.history import Event, History
from chaos.training import Execution, few, lineage, listed
from chaos.units import counted
from chaos.verdict import Verdict, failed, passed, unknown


class ExactlyOnceData(Invariant, frozen=True, kw_only=True):
    """In the lineage that lasted, every sample of a data epoch is consumed exactly once.

    A restore to step s discards what earlier groups did after s; of the rest every step is there, up to the one at
    which the job was completed, every rank's slice of it once, with the global batch in total, no sample twice within a
    pass over the data, and none left out of a pass that ended. The order may be any permutation. A step may lie across
    two passes, and a rest smaller than a batch may be dropped at the end of one. The last steps on record may be
    incomplete, unless the job was completed. Samples that a step says it left out (`quarantined`) are accounted for.
    """

    id: ClassVar[str] = "T8"
    needs: ClassVar[tuple[str, ...]] = ("step.completed", "group.formed")

    def check(self, history: History) -> Verdict:
        line = lineage(history)
        lasting = list(line.lasting)
        job, done = history.first("job.started"), history.last("job.completed")
        batch: int | None = job.get("batch") if job else None
        dataset: int | None = job.get("dataset") if job else None
        while lasting and not lasting[-1].whole and done is None:
            lasting.pop()
        if not lasting:
            return unknown("no step lasted")
        begun_at = line.groups[0].step
        if broken := _holes(lasting, begun_at) or _tail(lasting[-1], done) or _slices(lasting, batch):
            return broken
        # A job that goes on from an earlier run has consumed samples that are not on this record.
        passes = _Passes(dataset if begun_at == 0 else None)
        for execution, following in zip(lasting, [*lasting[1:], None], strict=True):
            if broken := passes.take(execution, following):
                return broken
        if not passes.total:
            return unknown("the steps name no samples", few([e.last.seq for e in lasting]))
        if dataset is None and passes.label is None:
            return unknown("neither the size of the data nor its epochs are on record")
        restarts = len(line.groups) - 1
        reason = (
            f"{counted(passes.total, 'sample')} of {counted(len(lasting), 'lasting step')}, each exactly once in its "
            f"pass ({counted(passes.complete, 'pass', 'passes')} ended), across {counted(restarts, 're-formation')}"
        )
        if dataset is not None and 0 < len(passes.seen) < dataset:
            reason += f"; what the last pass leaves out shows only at its end ({len(passes.seen)} of {dataset} so far)"
        if dataset is None or begun_at:
            reason += "; gaps were judged by counts only: the size or the start of the data is not on record"
        groups = [g.seq for g in line.groups]
        return passed(reason, few([*groups, lasting[0].first.seq, lasting[-1].last.seq]))


def _holes(lasting: Sequence[Execution], begun_at: int) -> Verdict | None:
    expected = begun_at + 1
    for before, execution in zip([None, *lasting[:-1]], lasting, strict=True):
        if execution.step != expected:
            missing = f"step {expected}" if execution.step == expected + 1 else f"steps {expected}–{execution.step - 1}"
            seqs = ([before.last.seq] if before else []) + [execution.first.seq]
            return failed(
                f"{missing} left no trace: their samples were never consumed (epoch {execution.group.epoch} "
                f"went on from step {execution.group.step})",
                sorted({execution.group.seq, *seqs}),
            )
        expected += 1
    return None


def _tail(last: Execution, done: Event | None) -> Verdict | None:
    end = done.get("step") if done is not None else None
    if done is None or end is None or end <= last.step:
        return None
    return failed(
        f"the job was completed at step {end}, but step {last.step} is the last that left a trace",
        sorted((last.last.seq, done.seq)),
    )


def _slices(lasting: Sequence[Execution], batch: int | None) -> Verdict | None:
    named = any(execution.samples() for execution in lasting)
    for execution in lasting:
        if execution.again:
            ranks = sorted({str(e.get("rank")) for e in execution.again})
            return failed(
                f"step {execution.step} (epoch {execution.group.epoch}) was done twice by rank {listed(ranks)} in one "
                "incarnation of the group",
                few([*_seqs(execution), *(e.seq for e in execution.again)]),
            )
        if not execution.whole:
            world = execution.group.world or execution.first.get("world") or 0
            absent = [rank for rank in range(world) if rank not in execution.ranks]
            return failed(
                f"step {execution.step} (epoch {execution.group.epoch}) lasted without the slice of rank "
                f"{listed(absent)} of {world}",
                _seqs(execution),
            )
        count = len(execution.samples())
        if batch is not None and named and count != batch:
            return failed(
                f"step {execution.step} (epoch {execution.group.epoch}, world {len(execution.ranks)}) consumed "
                f"{counted(count, 'sample')} instead of the global batch of {batch}",
                _seqs(execution),
            )
    return None


def _seqs(execution: Execution) -> tuple[int, ...]:
    return few([e.seq for e in execution.ranks.values()])


class _Passes:
    """The pass over the data that is under way. Without the size of the data, the target's own label ends a pass."""

    def __init__(self, dataset: int | None) -> None:
        self.dataset = dataset
        self.seen: dict[Any, Execution] = {}
        self.label: Any = None
        self.total = self.ended = 0

    @property
    def complete(self) -> int:
        """Passes that have ended."""
        return self.ended + (len(self.seen) == self.dataset)

    def take(self, execution: Execution, following: Execution | None) -> Verdict | None:
        """Count the samples of the next lasting step."""
        samples = execution.samples()
        self.total += len(samples)
        if broken := self._turn(execution, samples):
            return broken
        twice = []
        for sample in samples:
            if sample in self.seen:
                twice.append(sample)
            else:
                self.seen[sample] = execution
        if not twice:
            return None
        if self._crosses(execution, following) and len(set(twice)) == len(twice):
            self._next(dict.fromkeys(twice, execution))
            return None
        before = [self.seen[s] for s in twice]
        return failed(
            f"step {execution.step} (epoch {execution.group.epoch}) consumed samples a second time in data epoch "
            f"{self.label}: {listed(sorted(set(twice)))} (first in step {listed(sorted({e.step for e in before}))})",
            few([*(e.first.seq for e in before[:4]), *(e.seq for e in execution.ranks.values())]),
        )

    def _crosses(self, execution: Execution, following: Execution | None) -> bool:
        """Whether the pass ends inside this step, so that what it consumed twice belongs to the next one."""
        if self.dataset is not None:
            return len(self.seen) == self.dataset
        return following is not None and following.first.get("data_epoch") != self.label

    def _next(self, seen: dict[Any, Execution]) -> None:
        self.ended += 1
        self.seen = seen

    def _turn(self, execution: Execution, samples: Sequence[Any]) -> Verdict | None:
        """Begin the next pass where the last one is complete, or where the target says so."""
        label, before = execution.first.get("data_epoch"), self.label
        self.label = label
        if self.dataset is None:
            if before not in (None, label):
                crossed = all(e.step == execution.step - 1 for e in self.seen.values())
                self._next(self.seen if crossed else {})
            return None
        if len(self.seen) >= self.dataset:
            self._next({})
        elif before not in (None, label):
            return self._early(execution, samples)
        return None

    def _early(self, execution: Execution, samples: Sequence[Any]) -> Verdict | None:
        """The target begins a data epoch though not every sample was consumed."""
        assert self.dataset is not None
        if self.ended and all(e.step == execution.step - 1 for e in self.seen.values()):
            return None  # the step before lay across the border, so this pass has begun already
        left = self.dataset - len(self.seen)
        if left < len(samples):
            if not set(range(self.dataset)) - self.seen.keys() <= set(samples):
                self._next({})  # the rest was dropped; otherwise this step lies across the border
            return None
        return failed(
            f"data epoch {self.label} began at step {execution.step} though {left} of "
            f"{counted(self.dataset, 'sample')} of the one before had not been consumed",
            _seqs(execution),
        )
