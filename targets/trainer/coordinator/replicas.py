"""Replicas of the state, each on its share of the ranks: which are whole, and which nodes make another one. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def whole(nodes: Sequence[str], kept: Collection[str], shards: int) -> list[str]:
    """Of the nodes of a group, by rank, those of the replicas that lost nobody."""
    replicas = [nodes[first : first + shards] for first in range(0, len(nodes), shards)]
    return [node for replica in replicas if all(node in kept for node in replica) for node in replica]


def completed(nodes: Sequence[str], others: Sequence[str], shards: int, wanted: int) -> list[str]:
    """The nodes, with as many more replicas as the others make, up to `wanted` ranks."""
    room = min(wanted - len(nodes), len(others))
    return [*nodes, *others[: room - room % shards]]
