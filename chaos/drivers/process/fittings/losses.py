"""What a power cut took: two listings of a folder, before and after, as evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from chaos.api import JSON

MOST = 40  # entries that are named one by one
Listing = Mapping[str, Sequence[Any]]  # path -> [bytes, digest] of a file, [] of a folder, whose path ends with a slash


def losses(before: Listing, after: Listing) -> JSON:
    """Entries that are gone or hold other bytes, and those that an undone removal or rename brought back."""
    lost = [path for path, content in before.items() if after.get(path) != list(content)]
    back = [path for path in after if path not in before]
    kept = [path for path in before if path not in lost]
    found: JSON = {
        "lost": [_described(path, before[path], after.get(path)) for path in sorted(lost)[:MOST]],
        "lost_entries": len(lost),
        "came_back": sorted(back)[:MOST],
        "kept_entries": len(kept),
        "kept_bytes": sum(before[path][0] for path in kept if before[path]),
    }
    if not before and not after:
        found["nothing_there"] = True
    if not lost and not back:
        found["nothing_unsynced"] = True
    return found


def _described(path: str, before: Sequence[Any], after: Sequence[Any] | None) -> JSON:
    what: JSON = {"path": path}
    if before:
        what |= {"bytes": before[0], "digest": before[1]}
    return what | {
        "left": "nothing" if after is None else {"bytes": after[0], "digest": after[1]} if after else "folder"
    }
