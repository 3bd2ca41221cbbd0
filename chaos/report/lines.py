"""One event as one line of plain text, for the console, the page and the evidence in JUnit."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from chaos.clean import clean as clean
from chaos.clean import clean_block as clean_block
from chaos.history import Event
from chaos.units import counted

WIDEST = 300  # characters of a described event that are kept

Data = Mapping[str, Any]


def shorten(text: object, width: int = WIDEST) -> str:
    """`clean`, cut to `width` with an ellipsis."""
    line = clean(text)
    return line if len(line) <= width else line[: width - 1] + "…"


def seconds(value: float | None) -> str:
    """A duration as people read it: `840 ms`, `3.2 s`, `2 min 5 s`; `–` where there is none."""
    if value is None:
        return "–"
    if abs(value) < 0.9995:
        return f"{value * 1000:.0f} ms"
    if abs(value) < 119.95:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    return f"{minutes} min {rest} s"


def number(value: object) -> str:
    """A number without needless digits; `–` for None, other values as they are."""
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 10_000 else f"{value:.0f}"
    return clean(value)


def names(value: object) -> str:
    """A few names, or how many there are."""
    if not isinstance(value, list | tuple):
        return clean(value if value not in (None, "") else "–")
    return ", ".join(map(clean, value)) if len(value) <= 4 else f"{len(value)} members"


def items(value: object) -> Sequence[Any]:
    """`value` where it is a list, as documented; else nothing: a target may put anything into a field."""
    return value if isinstance(value, list | tuple) else ()


def struck(data: Data, nodes: Mapping[str, str]) -> tuple[str, ...]:
    """The members that a fault harms; of one between sides those of the smaller. `nodes`: where members live."""
    members = tuple(map(str, items(data.get("members"))))
    smaller = min(map(items, items(data.get("sides"))), key=len, default=None)
    return members if smaller is None else tuple(member for member in members if nodes.get(member) in smaller)


def _whom(d: Data) -> str:
    if sides := items(d.get("sides")):
        return "between " + " | ".join(", ".join(map(clean, items(side))) for side in sides)
    return f"on {names(d.get('members') or d.get('nodes'))}"


def details(data: Data) -> str:
    """Fields as `key=value`, in their order, as short JSON."""
    return " ".join(f"{key}={_value(value)}" for key, value in data.items() if value is not None)


def _value(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple) and (len(value) > 8 or any(isinstance(v, Mapping) for v in value)):
        return f"[{counted(len(value), 'item')}]"
    try:
        return msgspec.json.encode(value).decode()
    except UnicodeEncodeError:  # half a character, which no encoding has
        return clean(value)


def how_ended(data: Data) -> str:
    """`stopped`, `exit 1`, the signal's name or (its code is not known) `gone`, from the data of a `member.exited`."""
    code = data.get("code")
    if data.get("expected"):
        return "stopped"
    if isinstance(code, int) and code < 0:
        try:
            return signal.Signals(-code).name
        except ValueError:
            return f"signal {-code}"
    return "gone" if code is None else f"exit {code}"


def _landed(d: Data) -> str:
    return f"{d.get('kind', 'fault')} landed {_whom(d)}: {details(d.get('evidence') or {})}"


def _formed(d: Data) -> str:
    origin = "from nothing" if not d.get("step") else f"from step {d['step']}"
    if d.get("generation"):
        origin = f"from generation {d['generation']} at step {d.get('step')}"
    return f"group formed: epoch {d.get('epoch')}, {counted(d.get('world'), 'rank')}, {origin}"


def _left(d: Data) -> str:
    return "; not healed yet: " + ("; ".join(map(str, items(d["left"]))) or "nothing") if "left" in d else ""


def _step(d: Data) -> str:
    loss = f": loss {d['loss']}" if d.get("loss") is not None else ""
    return f"step {d.get('step')} on rank {d.get('rank')} of {d.get('world')}{loss}"


def _sampled(d: Data) -> str:
    late = ", late" if d.get("late") else ""
    error = f", {d['error']}" if d.get("error") else ""
    return f"{number(d.get('value'))}{late}{error}"


# Kinds that a person wants to see as they happen.
_KEY: dict[str, Callable[[Data], str]] = {
    "run.started": lambda d: f"run of {d.get('experiment', '?')} with seed {d.get('seed', '?')}",
    "run.ended": lambda d: f"run ended: {d.get('reason', '?')}" + (f" ({d['detail']})" if d.get("detail") else ""),
    "run.interrupted": lambda d: f"interrupted by signal {d.get('signal', '?')}: healing" + _left(d),
    "target.starting": lambda d: "starting the target",
    "target.ready": lambda d: "target is ready",
    "target.finished": lambda d: f"target finished with {d.get('code')} ({d.get('member')})",
    "target.stopping": lambda d: "target is stopped",
    "target.hung": lambda d: f"no progress for {seconds(d.get('seconds'))}; alive: {names(d.get('alive'))}",
    "baseline.met": lambda d: "steady state before the method: met",
    "baseline.missed": lambda d: f"steady state before the method: not met; {details(d)}",
    "method.started": lambda d: "method begins",
    "final.started": lambda d: "final phase: last reads",
    "abort.triggered": lambda d: f"abort: {d.get('name')} is {number(d.get('value'))}",
    "limit.reached": lambda d: f"limit reached: {d.get('name')} ({number(d.get('value'))})",
    "member.started": lambda d: (
        f"{d.get('member', '?')} started" + (f" on {d['node']}" if d.get("node") else "") + f", pid {d.get('pid')}"
    ),
    "member.exited": lambda d: f"{d.get('member', '?')}: {how_ended(d)}",
    "fault.landed": _landed,
    "fault.healed": lambda d: f"{d.get('kind', 'fault')} healed in {seconds(d.get('seconds'))}",
    "fault.failed": lambda d: f"{d.get('phase', 'fault')} failed: {d.get('error')}: {d.get('message')}",
    "fault.missed": lambda d: f"never injected: {d.get('reason')}",
    "group.formed": _formed,
    "checkpoint.committed": lambda d: f"checkpoint {d.get('generation')} committed at step {d.get('step')}",
    "checkpoint.aborted": lambda d: f"checkpoint {d.get('generation')} aborted: {d.get('reason')}",
    "checkpoint.damaged": lambda d: f"checkpoint {d.get('generation')} damaged: {d.get('name')}, {d.get('reason')}",
    "checkpoint.loaded": lambda d: f"rank {d.get('rank')} loaded checkpoint {d.get('generation')}",
    "failure.detected": lambda d: f"{d.get('member')} declared failed ({d.get('class')}): {d.get('reason')}",
    "recovery.action": lambda d: (
        f"recovery: {d.get('action')} to epoch {d.get('epoch')}, {counted(d.get('world'), 'rank')}"
    ),
    "recovery.validated": lambda d: f"recovery validated at step {d.get('step')}, loss {d.get('loss')}",
    "write.rejected": lambda d: (
        f"{d.get('op')} {d.get('resource')} of {d.get('member')} refused: {d.get('reason')}, "
        f"token {d.get('token')}, highest {d.get('highest')}"
    ),
    "serving.ready": lambda d: f"serving with {names(d.get('replicas'))}",
    "replica.ready": lambda d: f"{d.get('replica')} is ready with generation {d.get('generation')}",
    "replica.ejected": lambda d: f"{d.get('replica')} taken out of rotation: {d.get('reason')}",
    "replica.returned": lambda d: f"{d.get('replica')} back in rotation: {d.get('reason')}",
    "breaker.opened": lambda d: f"breaker of {d.get('name')} opened: {d.get('reason')}",
    "breaker.closed": lambda d: f"breaker of {d.get('name')} closed: {d.get('reason')}",
    "ladder.moved": lambda d: f"model ladder {d.get('before')} → {d.get('after')}: {d.get('reason')}",
    "features.moved": lambda d: (
        f"{d.get('tier')} features of {d.get('replica')} {d.get('before')} → {d.get('after')}: {d.get('reason')}"
    ),
    "drain.begun": lambda d: (
        f"{d.get('member')} drains: {counted(d.get('in_flight'), 'request')} and "
        f"{counted(d.get('streams'), 'stream')} in flight"
    ),
    "drain.ended": lambda d: f"{d.get('member')} drained in {seconds(d.get('seconds'))}, {d.get('lost')} lost",
    "session.resumed": lambda d: (
        f"{d.get('replica')} goes on with session {d.get('session')} by {d.get('way')} in "
        f"{seconds(d.get('seconds'))}, {counted(d.get('recomputed'), 'token')} recomputed"
    ),
    "load.started": lambda d: (
        f"load begins: {counted(d.get('users'), 'user')}, {d.get('shape')}, {seconds(d.get('seconds'))}"
    ),
    "load.ended": lambda d: (
        f"load ended: {counted(d.get('requests'), 'request')}, {counted(d.get('failures'), 'failure')}, p50 "
        f"{seconds(d.get('p50'))}, p99 {seconds(d.get('p99'))}"
    ),
    "job.completed": lambda d: f"job completed at step {d.get('step')}, loss {d.get('loss')}",
    "job.failed": lambda d: f"job failed: {d.get('reason')}",
}
_REST: dict[str, Callable[[Data], str]] = {
    "method.ended": lambda d: "method is over",
    "file.reached": lambda d: f"waits before {d.get('op')} of {d.get('path')}",
    "point.reached": lambda d: f"waits at {d.get('name')}",
    "fault.injecting": lambda d: f"injecting {_whom(d)}",
    "probe.sampled": _sampled,
    "lease.granted": lambda d: f"lease of {d.get('resource')} to {d.get('holder')}, epoch {d.get('epoch')}",
    "lease.expired": lambda d: f"lease of {d.get('resource')} expired, held by {d.get('holder')}",
    "epoch.issued": lambda d: f"epoch {d.get('epoch')} issued to {d.get('holder')}: {d.get('reason')}",
    "epoch.rejected": lambda d: f"{d.get('member')} refused: token {d.get('token')} below {d.get('highest')}",
    "write.accepted": lambda d: f"{d.get('op')} {d.get('resource')} with token {d.get('token')} accepted",
    "group.forming": lambda d: (
        f"forming epoch {d.get('epoch')} with {counted(d.get('world'), 'rank')}: {d.get('reason')}"
    ),
    "step.completed": _step,
    "checkpoint.begun": lambda d: f"checkpoint {d.get('generation')} begins at step {d.get('step')}",
    "checkpoint.saved": lambda d: f"rank {d.get('rank')} saved its part of checkpoint {d.get('generation')}",
    "checkpoint.shard_written": lambda d: f"{d.get('name')} of checkpoint {d.get('generation')} is durable",
    "checkpoint.prepared": lambda d: (
        f"checkpoint {d.get('generation')} is whole: {counted(len(items(d.get('shards'))), 'shard')}"
    ),
    "checkpoint.loading": lambda d: f"rank {d.get('rank')} loads checkpoint {d.get('generation')}",
    "checkpoint.shard_read": lambda d: f"{d.get('name')} of checkpoint {d.get('generation')} was read",
    "checkpoint.removed": lambda d: f"checkpoint {d.get('generation')} removed",
    "path.entered": lambda d: f"recovery path {d.get('name')} entered",
    "path.exercised": lambda d: f"recovery path {d.get('name')} was gone to its end",
    "worker.stopped": lambda d: f"{d.get('member')} was stopped: {d.get('reason')}",
    "fault.armed": lambda d: f"{d.get('kind')} waits for its moment",
    "request.sent": lambda d: f"{d.get('id')}: a client asks ({d.get('what')}, {d.get('priority')})",
    "failure.suspected": lambda d: f"{d.get('member')} suspected: {d.get('reason')}",
    "breaker.half_opened": lambda d: f"breaker of {d.get('name')} lets one through: {d.get('reason')}",
    "health.changed": lambda d: (
        f"{d.get('replica')} is {'' if d.get('up') else 'not '}{d.get('level')}: {d.get('reason')}"
    ),
    "request.shed": lambda d: f"{d.get('id')} ({d.get('priority')}) refused: {d.get('reason')}",
    "request.completed": lambda d: (
        f"{d.get('id')}: {d.get('status') or d.get('error')} in {seconds(d.get('latency'))}"
        + (f" from {d.get('replica')}, {d['tier']}" if d.get("tier") else "")
    ),
    "attempt.completed": lambda d: (
        f"{d.get('id')} at {d.get('replica')}, attempt {d.get('attempt')}: {d.get('status')} "
        f"in {seconds(d.get('seconds'))}"
    ),
}
_LINES = _KEY | _REST

KEY_KINDS = frozenset(_KEY)
"""Kinds that matter while a run goes on; the rest is shown only on request."""


def describe(event: Event) -> str:
    """What happened, on one line of at most `WIDEST` characters; unknown kinds show their fields."""
    line = _LINES.get(event.kind)
    try:
        text = line(event.data) if line else f"{event.kind} {details(event.data)}"
    except (TypeError, ValueError, AttributeError):  # a field of another type than documented
        text = f"{event.kind} {details(event.data)}"
    return shorten(text)
