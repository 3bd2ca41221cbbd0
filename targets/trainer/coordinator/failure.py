"""Failures by class, and the smallest action that is enough for each."""

from __future__ import annotations

from typing import NamedTuple

from chaos.inside import emit

CONTENT = frozenset({"digest", "length", "incomplete", "format", "validation"})
"""Reasons for which a generation is damaged, and not just hard to reach."""

PATHS = {
    "cold-restart": "worker.restart",
    "warm-restart": "worker.warm_restart",
    "replace": "spare.promote",
    "replica-leave": "replica.leave",
    "replica-rejoin": "replica.rejoin",
    "shrink": "group.shrink",
    "grow": "group.grow",
    "failover": "coordinator.failover",
    "rollback": "checkpoint.rollback",
    "reconfigure": "memory.reconfigure",
}
"""The recovery path that stands for an action."""


class Failure(Exception):
    """The group cannot go on as it is; recorded as `detected` by whoever raises it."""

    def __init__(self, member: str, kind: str, reason: str) -> None:
        self.member, self.kind, self.reason = member, kind, reason
        super().__init__(f"{member}: {kind}: {reason}")


def detected(failure: Failure) -> Failure:
    """Record that it was detected."""
    emit("failure.detected", member=failure.member, **{"class": failure.kind}, reason=failure.reason)
    return failure


class Damage(Failure):
    """A generation cannot be restored, or must not be."""

    def __init__(self, member: str, generation: int, name: str, reason: str) -> None:
        self.generation, self.name = generation, name
        super().__init__(member, "corruption" if reason in CONTENT else "transient", reason)


class GiveUp(Exception):
    """The job cannot go on: it fails, rather than being half dead."""


class Change(NamedTuple):
    """Why the group is formed anew."""

    action: str  # a key of PATHS, or `start`
    reason: str
    drained: str | None = None  # the node that was given notice, and saved in time
    nodes: tuple[str, ...] = ()  # of the next group by rank, where its first ones go on with their live state

    @property
    def live(self) -> bool:
        return bool(self.nodes)


WARM = frozenset({"fail-stop", "hang", "partition", "transient"})
"""Classes of failures after which the survivors' memory is as good as before."""


def exit_class(code: int, cause: str | None) -> str:
    """The class of a worker's end. What the agent knows of the cause goes before what an exit code can say."""
    return cause or ("out-of-memory" if code == 137 else "fail-stop")


def actions(change: Change, before: int, world: int, *, promoted: bool = False) -> list[str]:
    """What is done: by the cause, and by the world size that is left; the smallest that is enough."""
    if change.action == "start":
        return []
    if change.live:
        return [change.action]
    resized = ["shrink"] if world < before else ["grow"] if world > before else ["replace"] if promoted else []
    if change.action in ("failover", "rollback", "reconfigure", "warm-restart"):
        return [change.action, *resized]
    return resized or ["cold-restart"]
