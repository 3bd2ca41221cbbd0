"""Who stands where right now, kept up to date by the events of a run: the model behind the live console."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from chaos.history import Event
from chaos.report.lines import how_ended, items, struck
from chaos.report.traffic import Traffic

_WINDOW = 2.0  # seconds

_PHASES = {
    "target.starting": "starting the target",
    "target.ready": "checking the steady state",
    "method.started": "method",
    "final.started": "final phase",
    "run.interrupted": "interrupted, healing",
    "run.ended": "ended",
}


class Row(msgspec.Struct):
    """One member as its last events show it."""

    name: str
    role: str = ""
    node: str = ""
    rank: int | None = None
    pid: int | None = None
    ended: str = ""  # how it ended; empty while it lives
    step: int | None = None
    epoch: int | None = None
    generation: int | None = None


class Standing(msgspec.Struct):
    """A fault that stands now."""

    kind: str
    since: float
    members: frozenset[str]


class Board(msgspec.Struct):
    """Feed it every event in order; read it at any time. Constant work an event, memory by members."""

    rows: dict[str, Row] = {}
    faults: dict[str, Standing] = {}  # step of the method -> the fault that stands
    phase: str = "preparing"
    step: int | None = None  # the last step completed by any rank
    steps: int | None = None  # of the whole job
    loss: str = ""
    rate: float | None = None  # samples per second of all ranks, over the last `_WINDOW`
    detected: str = ""  # a failure that was declared and whose recovery is not over
    traffic: Traffic | None = None  # of a serving stack, over the last `_WINDOW`
    now: float = 0.0  # `t` of the last event
    _samples: int = 0
    _mark: tuple[float, int] = (0.0, 0)  # (t, samples) where the window began
    _traffic: Traffic | None = None  # since then

    def event(self, event: Event) -> None:
        """Take one event into account."""
        self.now = max(self.now, event.t)
        self.phase = _PHASES.get(event.kind, self.phase)
        if handler := _HANDLERS.get(event.kind):
            handler(self, event)
        span = self.now - self._mark[0]
        if span >= _WINDOW:
            self.rate = (self._samples - self._mark[1]) / span if self.step is not None else None
            self._mark = (self.now, self._samples)
            self._roll(span)

    def _roll(self, span: float) -> None:
        if self._traffic is not None:
            self.traffic = msgspec.structs.replace(self._traffic, seconds=span)
            self._traffic = Traffic(tier=self._traffic.tier)

    def row(self, name: str) -> Row:
        """The row of a member; a new one when it was never seen."""
        if name not in self.rows:
            self.rows[name] = Row(name)
        return self.rows[name]

    def faults_on(self, row: Row) -> list[str]:
        """Kinds of the faults that stand on this member."""
        return [f.kind for f in self.faults.values() if row.name in f.members]

    def state_of(self, row: Row) -> str:
        """`alive`, `frozen`, or how it ended."""
        if row.ended:
            return row.ended
        return "frozen" if any(is_freeze(kind) for kind in self.faults_on(row)) else "alive"

    def started(self, event: Event) -> None:
        d = event.data
        row = self.row(str(d.get("member") or event.source))
        row.role, row.node = str(d.get("role") or row.role), str(d.get("node") or row.node)
        row.rank, row.pid, row.ended = _int(d.get("rank")), _int(d.get("pid")), ""

    def exited(self, event: Event) -> None:
        row = self.row(str(event.get("member") or event.source))
        # A name may already belong to the process that replaced this one.
        if row.pid is None or event.get("pid") in (None, row.pid):
            row.ended = how_ended(event.data)

    def landed(self, event: Event) -> None:
        if not event.get("instant"):
            members = frozenset(struck(event.data, {row.name: row.node for row in self.rows.values()}))
            self.faults[event.source.removeprefix("fault:")] = Standing(str(event.get("kind")), event.t, members)

    def healed(self, event: Event) -> None:
        self.faults.pop(event.source.removeprefix("fault:"), None)

    def stepped(self, event: Event) -> None:
        row = self.row(event.source)
        row.step = self.step = _int(event.get("step"))
        row.rank, row.epoch = _int(event.get("rank")), _int(event.get("epoch"))
        self.loss = str(event.get("loss") or "")
        self._samples += len(items(event.get("samples")))

    def served(self, event: Event) -> None:
        self._traffic = self._traffic or Traffic()
        self._traffic.ended(event)

    def moved(self, event: Event) -> None:
        self._traffic = self._traffic or Traffic()
        self._traffic.tier = str(event.get("after"))

    def kept(self, event: Event) -> None:
        row = self.row(event.source)
        row.generation = _int(event.get("generation"))
        row.epoch = _int(event.get("epoch")) if event.get("epoch") is not None else row.epoch

    def issued(self, event: Event) -> None:
        holder = str(event.get("holder"))
        if holder in self.rows:
            self.rows[holder].epoch = _int(event.get("epoch"))

    def began(self, event: Event) -> None:
        self.steps = _int(event.get("steps"))

    def declared(self, event: Event) -> None:
        self.detected = f"{event.get('member')} failed ({event.get('class')})"

    def formed(self, event: Event) -> None:
        self.detected = ""


def is_freeze(kind: str) -> bool:
    """Whether members under this fault stand still but live."""
    return "freeze" in kind


def _int(value: object) -> int | None:
    return value if isinstance(value, int) else None


_HANDLERS: dict[str, Callable[[Board, Event], None]] = {
    "member.started": Board.started,
    "member.exited": Board.exited,
    "fault.landed": Board.landed,
    "fault.healed": Board.healed,
    "step.completed": Board.stepped,
    "request.completed": Board.served,
    "ladder.moved": Board.moved,
    "checkpoint.saved": Board.kept,
    "checkpoint.committed": Board.kept,
    "checkpoint.loaded": Board.kept,
    "replica.ready": Board.kept,
    "epoch.issued": Board.issued,
    "job.started": Board.began,
    "failure.detected": Board.declared,
    "group.formed": Board.formed,
}
