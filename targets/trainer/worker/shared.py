"""Committed generations as each node sees them in a shared folder, as on NFS: maybe later than others do."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import msgspec

from targets.trainer.wire import Frame, Refused, digest

AGAIN = 0.05


class Shared:
    """The store's folder, read by a worker. Nothing in it may be believed before its marker is there."""

    def __init__(self, folder: Path, patience: float) -> None:
        self._folder, self._patience = folder, patience

    def read(self, op: str, fields: dict[str, Any]) -> Frame | None:
        """As the store answers `manifest.get` and `shard.get`; None when it did not come into sight in time. Raises
        Refused for what is in sight and wrong.
        """
        place = self._folder / f"gen-{fields['generation']:06}"
        end = time.monotonic() + self._patience
        while True:
            try:
                text, marker = (place / "manifest.json").read_bytes(), (place / "COMMITTED").read_bytes()
                if digest(text).encode() != marker:
                    raise Refused({"error": "digest", "name": "manifest"})
                if op == "manifest.get":
                    return Frame({"manifest": msgspec.json.decode(text)})
                return Frame({}, (place / "shards" / fields["name"]).read_bytes())
            except OSError:  # not there for us, yet or any more
                if time.monotonic() > end:
                    return None
            time.sleep(AGAIN)

    def newest(self) -> int:
        """The newest generation with a marker that this node sees; 0 for none."""
        try:
            found = [int(p.name[4:]) for p in self._folder.glob("gen-[0-9]*") if (p / "COMMITTED").exists()]
        except OSError:
            return 0
        return max(found, default=0)
