"""What else the machine did while it was measured."""

from __future__ import annotations

from statistics import fmean

from chaos.history import History

WORTH_A_WORD = 0.3  # of all processor time: from there on a target may have been late for want of it


def others(history: History) -> float | None:
    """The mean share of all processor time that others used, from the start of the method on; None where unknown."""
    begun = history.first("method.started")
    samples = [e for e in history.of("host.sampled") if begun is None or e.seq > begun.seq]
    shares = [share for e in samples if isinstance(share := e.get("others"), int | float)]
    return fmean(shares) if shares else None
