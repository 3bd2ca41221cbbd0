"""How full the machine's memory is."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from chaos.api import Probe, Scene

MEMINFO = Path("/proc/meminfo")
CGROUP = Path("/sys/fs/cgroup")


class Memory(Probe, frozen=True, kw_only=True):
    """Share of memory in use: of the machine, or of this control group (v2) where that is the tighter bound."""

    unit: ClassVar[str] = "share"

    async def sample(self, scene: Scene) -> float | None:
        shares = [share for share in (machine_share(), group_share()) if share is not None]
        return max(shares, default=None)


def machine_share() -> float | None:
    """What is not available for new work, as the kernel reckons it."""
    try:
        fields = dict(line.split(":", 1) for line in MEMINFO.read_text().splitlines())
        total, available = (int(fields[name].split()[0]) for name in ("MemTotal", "MemAvailable"))
    except (OSError, KeyError, ValueError):
        return None
    return 1 - available / total


def group_share() -> float | None:
    """What the control group uses of its limit, file cache that can be dropped left out; None without a limit."""
    try:
        limit = (CGROUP / "memory.max").read_text().strip()
        if limit == "max":
            return None
        used = int((CGROUP / "memory.current").read_text())
        cache = dict(line.split() for line in (CGROUP / "memory.stat").read_text().splitlines())
        return (used - int(cache.get("inactive_file", 0))) / int(limit)
    except (OSError, ValueError):
        return None
