"""What clients of a serving stack went through in the last moments, on a line."""

from __future__ import annotations

import msgspec

from chaos.history import Event
from chaos.report.lines import clean, number, seconds


class Traffic(msgspec.Struct):
    """Requests that ended within `seconds`; a client's own mistakes are left out."""

    seconds: float = 0.0
    requests: int = 0
    failed: int = 0
    shed: int = 0
    slowest: float = 0.0
    tier: str = ""  # the rung of the model ladder, once it was moved

    def ended(self, event: Event) -> None:
        """Take a `request.completed` into account."""
        if event.get("wrong"):
            return
        status, latency = event.get("status"), event.get("latency")
        self.requests += 1
        self.shed += status == 429
        self.failed += status not in (200, 429)
        if isinstance(latency, int | float):
            self.slowest = max(self.slowest, latency)

    def line(self) -> str:
        """`78 requests/s · slowest 45 ms · 0.5 % failed · tier secondary`."""
        rate = f"{number(round(self.requests / self.seconds, 1))} requests/s" if self.seconds else ""
        told = [rate, f"slowest {seconds(self.slowest)}"]
        for count, word in ((self.failed, "failed"), (self.shed, "shed")):
            if count:
                told.append(f"{number(round(100 * count / self.requests, 1))} % {word}")
        if self.tier not in ("", "primary"):
            told.append(f"tier {clean(self.tier)}")
        return " · ".join(filter(None, told))
