"""Match what happens in a run against the triggers of its schedule."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import anyio

from chaos.api import JSON, Undo
from chaos.experiment import Action
from chaos.history import Event
from chaos.runner.debts import Debts
from chaos.runner.recorder import Recorder
from chaos.trigger import PHASES, After, OnEvent, OnFile, OnLog, OnPhase, OnPoint, OnProbe

# What only the runner says: verdicts rest on it, so a target that says it is not believed.
OWN = frozenset({"run", "baseline", "method", "fault", "probe", "abort", "limit", "final", "point", "file"})
OWN_KINDS = frozenset({"target.starting", "target.ready", "target.hung", "target.finished", "target.stopping"})


class Watch:
    """The trigger of one action: counts from the beginning of the run and fires once."""

    def __init__(self, action: Action) -> None:
        self.when = action.when
        self.fired = anyio.Event()
        self.moment = 0.0  # when it fired, on the runner's clock; may lie ahead for a moment on the schedule
        self.cause: int | None = None  # seq of the event that fired it
        self.holds: str | None = None  # the member that stands there until the fault has landed
        self.hopeless: str | None = None  # why it can never fire any more
        self.released = anyio.Event()  # members that stand at its failpoint may go on
        self._seen = 0
        self._entered = 0  # how many of the events that lead into a phase have come

    def fire(self, moment: float, cause: int | None = None) -> None:
        """Fire; later calls change nothing."""
        if not self.fired.is_set():
            self.moment, self.cause = moment, cause
            self.fired.set()

    def give_up(self, reason: str) -> None:
        """Wake the one who waits, since what it waits for will not come."""
        if not self.fired.is_set():
            self.hopeless = reason
            self.fired.set()

    def count(self, nth: int) -> bool:
        """Count one match; whether it was the nth."""
        self._seen += 1
        return self._seen == nth

    def enters(self, phase: OnPhase, event: Event) -> bool:
        """Whether this event is the beginning of the phase; takes those that lead there, in their order."""
        way = PHASES[phase.phase]
        if event.kind != way[self._entered]:
            return False
        self._entered = (self._entered + 1) % len(way)
        return self._entered == 0


class Triggers:
    """All triggers of a schedule, armed from the beginning of the run: nothing that happens early is missed."""

    def __init__(self, actions: Sequence[Action]) -> None:
        self.watches = tuple(Watch(action) for action in actions)
        self._by_kind: dict[str, list[Watch]] = {}
        self._logs: list[tuple[Watch, OnLog, re.Pattern[str]]] = []
        self._points: list[tuple[Watch, OnPoint]] = []
        self._files: list[tuple[Watch, OnFile]] = []
        for watch in self.watches:
            match watch.when:
                case OnEvent(kind=kind):
                    self._index(watch, [kind])
                case OnProbe():
                    self._index(watch, ["probe.sampled"])
                case After():
                    self._index(watch, ["fault.landed", "fault.healed", "fault.failed", "fault.missed"])
                case OnLog(regex=regex):
                    self._logs.append((watch, watch.when, re.compile(regex)))
                case OnPoint():
                    self._points.append((watch, watch.when))
                case OnFile():
                    self._files.append((watch, watch.when))
                case OnPhase(phase=phase):
                    self._index(watch, PHASES[phase])

    def _index(self, watch: Watch, kinds: Iterable[str]) -> None:
        for kind in kinds:
            self._by_kind.setdefault(kind, []).append(watch)

    @property
    def points(self) -> tuple[str, ...]:
        """The failpoints at which members must stop and ask."""
        return tuple(dict.fromkeys(when.point for _, when in self._points))

    @property
    def files(self) -> tuple[OnFile, ...]:
        """The file operations at which members must stop and ask."""
        return tuple(when for _, when in self._files)

    def listen(self, recorder: Recorder) -> None:
        """Match every event that is recorded from now on."""
        recorder.listen(self._by_kind, self._event)

    def log(self, member: str, line: str) -> None:
        """Match a line that a member printed."""
        for watch, when, pattern in self._logs:
            wanted = when.member is None or fnmatchcase(member, when.member)
            if wanted and pattern.search(line) and watch.count(when.nth):
                watch.fire(anyio.current_time())

    def stop(self, source: str, point: str, data: Mapping[str, Any], cause: int) -> tuple[Watch, ...]:
        """Match a member that stands at a failpoint; those that hold it until their fault has landed."""
        held = []
        for watch, when in self._points:
            if when.matches_point(source, point, data) and watch.count(when.nth):
                watch.holds = source
                watch.fire(anyio.current_time(), cause)
                held.append(watch)
        return tuple(held)

    def touch(self, source: str, op: str, path: str, data: Mapping[str, Any], cause: int) -> tuple[Watch, ...]:
        """Match a member that is about to do a file operation; those that hold it until their fault has landed."""
        held = []
        for watch, when in self._files:
            if when.matches_file(source, op, path, data) and watch.count(when.nth):
                watch.holds = source
                watch.fire(anyio.current_time(), cause)
                held.append(watch)
        return tuple(held)

    def release(self) -> None:
        """Let every member that is held go on, now and later."""
        for watch in self.watches:
            watch.released.set()

    def _event(self, event: Event) -> None:
        for watch in self._by_kind.get(event.kind, ()):
            when = watch.when
            if isinstance(when, After):
                self._after(watch, when, event)
            elif isinstance(when, OnProbe):
                if event.source == f"probe:{when.probe}" and when.condition.holds(event.get("value")):
                    watch.fire(anyio.current_time(), event.seq)
            elif isinstance(when, OnPhase):
                if watch.enters(when, event) and watch.count(when.nth):
                    watch.fire(anyio.current_time(), event.seq)
            elif isinstance(when, OnEvent) and when.matches(event) and watch.count(when.nth):
                watch.fire(anyio.current_time(), event.seq)

    def _after(self, watch: Watch, when: After, event: Event) -> None:
        if event.source != f"fault:{when.step}":
            return
        if event.kind == "fault.healed" or (event.kind == "fault.landed" and (not when.healed or event.get("instant"))):
            watch.fire(anyio.current_time(), event.seq)
        elif event.kind == "fault.missed" or (event.kind == "fault.failed" and event.get("phase") == "inject"):
            watch.give_up(f"{when.step} did not land")


class RunStage:
    """What the driver is offered: see `chaos.api.Stage`."""

    def __init__(self, recorder: Recorder, triggers: Triggers, debts: Debts) -> None:
        self._recorder = recorder
        self._triggers = triggers
        self._debts = debts

    def record(self, source: str, kind: str, data: JSON, t: float | None = None) -> Event:
        if kind in OWN_KINDS or kind.partition(".")[0] in OWN:
            data = {"line": str(data)[:200], "reason": f"only the harness says {kind}"}
            kind = "target.malformed"
        return self._recorder.record(source, kind, data, t)

    def log_line(self, member: str, line: str) -> None:
        self._triggers.log(member, line)

    async def at_point(self, source: str, point: str, data: JSON) -> None:
        reached = self._recorder.record(source, "point.reached", {**data, "name": point})
        for watch in self._triggers.stop(source, point, data, reached.seq):
            await watch.released.wait()
        self._recorder.record("harness", "point.released", {"name": point, "member": source})

    async def at_file(self, source: str, op: str, path: str, data: JSON) -> None:
        about = {**data, "op": op, "path": path}
        reached = self._recorder.record(source, "file.reached", about)
        for watch in self._triggers.touch(source, op, path, data, reached.seq):
            await watch.released.wait()
        self._recorder.record("harness", "file.released", {"op": op, "path": path, "member": source})

    async def owe(self, undo: Undo) -> Callable[[], Awaitable[None]]:
        return await self._debts.owe(undo)
