"""A node that nobody hears may be cut off for a moment: the group waits for it, and keeps epoch and state."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager

from chaos.inside import emit, recovery_path
from targets.trainer.coordinator.detector import Heartbeats, Silence
from targets.trainer.coordinator.members import Link, Members
from targets.trainer.settings import Settings


class Pause:
    """Stands from the moment when a whole node is silent until everybody on it is heard again, for `pause` beyond
    `member_ttl`.

    A worker that is silent while its agent is heard hangs, and nothing is gained by waiting for it; but after a cut
    each connection comes back in its own time, by its own retransmission timer.
    """

    def __init__(self, settings: Settings, heartbeats: Heartbeats, members: Members) -> None:
        self._settings, self._heartbeats, self._members = settings, heartbeats, members
        self._nodes: set[str] = set()  # that are waited for
        self._path: AbstractContextManager[None] | None = None

    @property
    def stands(self) -> bool:
        return self._path is not None

    def covers(self, silence: Silence) -> bool:
        """Whether to wait for a member though it has been silent for long."""
        node = next((link.node for link in self._links() if link.member == silence.member), None)
        return node in self._nodes and silence.seconds < self._settings.member_ttl + self._settings.pause

    def look(self, epoch: int, nodes: list[str]) -> bool:
        """Begin, go on or end; whether it has just ended."""
        if not self._settings.pause:
            return False
        self._nodes = {node for node in nodes if self._silent(node, any if node in self._nodes else all)}
        if self._nodes and self._path is None:
            emit("recovery.action", action="pause", epoch=epoch, world=len(nodes), nodes=sorted(self._nodes))
            self._path = recovery_path("group.pause")
            self._path.__enter__()
        elif not self._nodes and self._path is not None:
            path, self._path = self._path, None
            path.__exit__(None, None, None)
            return True
        return False

    def drop(self) -> None:
        """It was not enough: the group is no more."""
        self._nodes, self._path = set(), None

    def _silent(self, node: str, how_many: Callable[[Iterable[bool]], bool]) -> bool:
        there = [link for link in self._links() if link.node == node]
        return bool(there) and how_many(self._heartbeats.quiet(link.member) for link in there)

    def _links(self) -> Iterable[Link]:
        return (*self._members.agents.values(), *self._members.workers.values())
