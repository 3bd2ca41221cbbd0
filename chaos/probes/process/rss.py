"""How much memory members hold."""

from __future__ import annotations

import os
from pathlib import Path
from typing import ClassVar

from chaos.api import Probe, Scene

PAGE = os.sysconf("SC_PAGE_SIZE")


class Rss(Probe, frozen=True, kw_only=True):
    """Resident memory of the members of one role or of all, together. Pages that they share count for each.

    No data when none of them lives.
    """

    unit: ClassVar[str] = "bytes"
    role: str | None = None

    async def sample(self, scene: Scene) -> float | None:
        sizes = [rss(member.pid) for member in scene.target.members() if self.role in (None, member.role)]
        return sum(size for size in sizes if size is not None) if any(sizes) else None


def rss(pid: int) -> int | None:
    """Bytes resident; None once the process has gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE
    except (OSError, IndexError):
        return None
