"""Faults and the moments at which they came, in words for somebody who has never seen the tool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from chaos.history import Event, History
from chaos.report.lines import clean, describe, items, number, shorten

# Who is hit goes before; `{was}` follows its number. What has no victim by name says so itself.
_BROKE: dict[str, str] = {
    "checkpoint.corrupt": "checkpoint {generation} was damaged on its disk",
    "checkpoint.delete": "files of checkpoint {generation} were deleted",
    "checkpoint.plant": "a look-alike, checkpoint {generation}, that nobody saved was planted",
    "checkpoint.rewind": "the pointer to the newest checkpoint was turned back to {generation}",
    "checkpoint.swap": "parts of checkpoint {generation} were replaced by those of an older one",
    "checkpoint.unmark": "the mark that checkpoint {generation} is complete was removed",
    "clock.drift": "the clock of {who} ran at a wrong speed",
    "clock.jump": "the clock of {who} jumped",
    "clock.skew": "the clock of {who} was set wrong",
    "compute.corrupt": "a bit in the memory of {who} was flipped",
    "compute.loss-spike": "{who} computed values that were far too large",
    "compute.nan": "{who} computed a value that is no number (NaN)",
    "compute.straggler": "{who} {was} slowed down",
    "data.corrupt-batch": "{who} read a damaged batch of training data",
    "data.slow-loader": "{who} had to wait for training data",
    "data.truncated-batch": "{who} read only a part of a batch of training data",
    "dependency.full": "the Redis store had no memory left{long}, and refused writes",
    "dependency.stampede": "all keys of the Redis store were dropped at once",
    "dependency.wrong-values": "the Redis store gave wrong values",
    "domain.cascade": "{who} lost power one after the other",
    "domain.power-off": "{who} lost power",
    "gpu.ecc": "memory errors of the GPU of {who} were reported",
    "gpu.kill": "every process on the GPU of {who} was killed",
    "gpu.xid": "an error of the GPU of {who} was reported",
    "network.bandwidth": "the link {link} carried only a few bytes a second",
    "network.blackhole": "the link {link} swallowed all data",
    "network.bridge": "all nodes but {who} were split into two halves that could not hear each other{long}",
    "network.delay": "packets of {who} arrived late",
    "network.dns": "the names of nodes led nowhere{long}, or to a wrong node",
    "network.down": "the link {link} went down",
    "network.isolate": "{who} {was} cut off from everybody else",
    "network.latency": "what was sent over the link {link} arrived late",
    "network.limit-data": "connections of the link {link} broke after a few bytes",
    "network.loss": "packets of {who} were lost",
    "network.majorities-ring": "{who} could hear only some of the others",
    "network.partition": "{who} {was} cut off from the others",
    "network.rate": "{who} could send only a few bytes a second",
    "network.reset": "connections of the link {link} were reset",
    "network.slicer": "what was sent over the link {link} came in small pieces",
    "network.slow-close": "the end of connections over the link {link} was held back",
    "objects.lose-response": "the answers of the object store were lost{long}, and what it was asked was done",
    "objects.slow": "the object store answered late",
    "objects.throttle": "the object store refused requests{long} (503, slow down)",
    "process.cgroup-freeze": "{who} stood still{long}, alive but silent (frozen)",
    "process.freeze": "{who} stood still{long}, alive but silent (frozen)",
    "process.kill": "{who} {was} killed",
    "process.kill-agent": "{who} {was} killed, while its worker lived on without it",
    "process.oom": "{who} ran out of memory",
    "process.preempt": "{who} {was} told to go, and ended after a short grace",
    "process.restart-loop": "{who} {was} killed again and again",
    "storage.bit-rot": "{who} read a file with flipped bits",
    "storage.error": "file operations of {who} failed",
    "storage.failed-fsync": "{who} could not make its writes durable{long} (fsync failed)",
    "storage.full": "the disk of {who} was full",
    "storage.kill": "{who} {was} killed in the middle of work on files",
    "storage.lost-write": "a write of {who} was acknowledged and lost",
    "storage.lying-fsync": "the disk of {who} said{long} that writes were durable, and they were not",
    "storage.power-cut": "{who} lost power{long}, and with it what had not reached the disk",
    "storage.read-only": "the disk of {who} became read-only",
    "storage.short-read": "{who} read only a part of a file",
    "storage.slow": "file operations of {who} were slow",
    "storage.stale-metadata": "{who} saw old names and sizes of files",
    "storage.throttle": "the disk of {who} was slow",
    "storage.torn-write": "a write of {who} was acknowledged and only half done",
    "writer.pause": "{who} {was} stopped until another had taken over, then woke up and went on",
    "writer.replay": "an old write was recorded, and sent again after another had taken over",
    "writer.two-leaders": "{who} {was} cut off{long}, until another had taken over: there were two leaders",
}  # fmt: skip

_POINTS: dict[str, str] = {
    "checkpoint.before_shard": "while checkpoint {generation} was being written",
    "checkpoint.before_decision": "while checkpoint {generation} was being committed",
    "checkpoint.before_commit": "while checkpoint {generation} was being committed",
    "checkpoint.before_save": "just before a checkpoint was saved",
    "checkpoint.before_write": "just before checkpoint {generation} was written",
    "save.begin": "just before a checkpoint was saved",
    "join.begin": "while it was joining the group",
    "model.before_load": "just before a model was loaded",
    "rank.dispatched": "while a request was being answered",
    "restore.loading": "while a recovery was loading checkpoint {generation}",
    "group.forming": "while the group was being formed",
    "step.begin": "at the beginning of step {step}",
    "model.before_commit": "while model {generation} was being committed",
    "replica.loading": "while a replica was loading its model",
    "stream.token": "in the middle of a streamed answer",
    "session.saving": "while a session was being saved",
}

_MOMENTS: dict[str, str] = {
    "step.completed": "right after step {step}",
    "checkpoint.begun": "when checkpoint {generation} had just begun",
    "checkpoint.committed": "right after checkpoint {generation} was committed",
    "request.completed": "while requests were being served",
    "attempt.completed": "while requests were being served",
    "checkpoint.loading": "while a recovery was loading checkpoint {generation}",
    "failure.detected": "right after a failure had been noticed",
    "group.forming": "while the group was being formed again",
    "recovery.validated": "while a recovery was warming up",
    "replica.ready": "right after {replica} had become ready",
    "replica.returned": "right after {replica} had come back",
    "kv.written": "while sessions were being kept",
    "fault.landed": "right after that",
    "fault.healed": "after that was over",
}

# Over in an instant, however long it took to prove it.
_ONCE = {
    "compute.corrupt", "compute.loss-spike", "compute.nan", "data.corrupt-batch", "data.truncated-batch",
    "writer.pause",
}  # fmt: skip
_NODES = 3  # that are named
_LATE = 0.75  # seconds between what a fault waited for and the fault, from which on they are no longer one moment


class _Gaps(dict[str, object]):
    """A field that a target does not tell."""

    def __missing__(self, key: str) -> str:
        return "?" if key == "generation" else ""


def broke(landed: Event, whom: Sequence[str], members: Mapping[str, Event], settings: Any, length: str) -> str:
    """What a fault did, without when: `worker-n1 (rank 1) was killed`. `whom`: the members that it harms; `settings`:
    the fault's own, as far as they were recorded; `length`: `for 8.0 s`, or nothing."""
    kind = str(landed.get("kind"))
    known = {**_mapping(settings), **_mapping(landed.get("evidence"))}
    who, several = subject(landed, whom, members)
    fields = {key: shorten(number(known[key]), 40) for key in ("generation", "link") if known.get(key) is not None}
    long = f" {length}" if length and kind not in _ONCE else ""
    words = _Gaps(fields, who=who, was="were" if several else "was", long=long)
    told = _BROKE.get(kind, "the fault " + kind.replace("{", "(").replace("}", ")") + " hit {who}")
    return " ".join((told if "{long}" in told else f"{told}{{long}}").format_map(words).split()).replace(" ,", ",")


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def subject(landed: Event, whom: Sequence[str], members: Mapping[str, Event]) -> tuple[str, bool]:
    """Whom a fault hit, in words, and whether they are several: members, or the node that all of them lived on."""
    homes = list(dict.fromkeys(clean(members[m].get("node") or "") for m in whom if m in members))
    cut = bool(items(landed.get("sides"))) or str(landed.get("kind")).startswith(("domain.", "storage.power"))
    whole = cut or (len(whom) > 2 and len(homes) < len(whom))
    if homes and all(homes) and whole and len(homes) <= _NODES:
        return ("nodes " if len(homes) > 1 else "node ") + _listed(homes), len(homes) > 1
    if not whom:
        nodes = [clean(n) for n in items(landed.get("nodes"))]
        return (_listed(nodes[:_NODES]), len(nodes) > 1) if nodes else ("the system", False)
    if len(whom) > _NODES:
        return f"{len(whom)} processes", True
    word = "processes" if len(whom) > 1 else "process"
    return f"{word} {_listed([_named(m, members) for m in whom])}", len(whom) > 1


def moment(history: History, injecting: Event | None, landed: Event, since: int = -1) -> str:
    """When: by what it waited for, in the job's own terms where they are known, else by the clock. `since`: number of
    the event that was told before: what was waited for earlier than that only set the fault up."""
    seq = injecting.get("trigger") if injecting is not None else None
    if not isinstance(seq, int) or isinstance(seq, bool) or not 0 <= seq < len(history):
        return f"{landed.t:.1f} s into the run"
    trigger, told = history[seq], _when(history[seq])
    late = (injecting or landed).t - trigger.t
    if late > _LATE and told.startswith("right after "):
        return f"{late:.1f} s later" if told == "right after that" else f"{late:.1f} s after {told[12:]}"
    waited = landed.t - trigger.t - late > _LATE and told.startswith("right after ")
    if (waited or seq < since) and "requests" not in told:  # it lay in wait until somebody ran into it
        return f"set up {told}"
    return told


def _when(trigger: Event) -> str:
    name = str(trigger.get("name"))
    told = _POINTS.get(name) if trigger.kind == "point.reached" else _MOMENTS.get(trigger.kind)
    if told is None and trigger.kind == "point.reached":
        return f"while {clean(trigger.source)} stood at “{shorten(name, 60)}”"
    if told is None:
        return f"right after: {shorten(describe(trigger), 100)}"
    return told.format_map(_Gaps({k: number(v) for k, v in trigger.data.items()}))


def _named(member: str, members: Mapping[str, Event]) -> str:
    rank = members[member].get("rank") if member in members else None
    return shorten(member, 60) + (f" (rank {rank})" if isinstance(rank, int) else "")


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
