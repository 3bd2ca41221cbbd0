"""Whether this machine lets a member be tapped: tried, not guessed."""

from __future__ import annotations

from chaos.drivers.process.fit_tap import missing
from chaos.errors import Unsupported


def probe() -> None:
    """Have a thread of ours make a folder, and refuse it; raises Unsupported with what is missing."""
    if reason := missing():
        fix = "Linux 5.6 or newer on x86-64 or arm64; in a container, a seccomp profile that allows `seccomp`"
        raise Unsupported(reason, fix)
