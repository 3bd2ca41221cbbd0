"""Byte counters in Prometheus' text format, with the original's names; live, not only when a connection has ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SERIES = {
    "received": ("toxiproxy_proxy_received_bytes_total", "The total number of bytes received on a given proxy link"),
    "sent": ("toxiproxy_proxy_sent_bytes_total", "The total number of bytes sent on a given proxy link"),
}


class Labels(NamedTuple):
    """What a counter counts for; a proxy that has moved or gone keeps its old series."""

    direction: str
    listener: str
    proxy: str
    upstream: str


class Counts:
    """Bytes by what was done with them and by whom."""

    def __init__(self) -> None:
        self._bytes: Counter[tuple[str, Labels]] = Counter()

    def add(self, labels: Labels, received: int, sent: int) -> None:
        self._bytes["received", labels] += received
        self._bytes["sent", labels] += sent

    def plus(self, other: Counts) -> Counts:
        both = Counts()
        both._bytes = self._bytes + other._bytes  # drops what is 0: a series begins with its first byte
        return both

    def text(self) -> str:
        return "".join(_series(key, self._bytes) for key in SERIES)


def _series(key: str, counts: Mapping[tuple[str, Labels], int]) -> str:
    name, about = SERIES[key]
    lines = [f"{name}{{{_pairs(labels)}}} {size}\n" for (what, labels), size in sorted(counts.items()) if what == key]
    return "".join((f"# HELP {name} {about}\n# TYPE {name} counter\n", *lines)) if lines else ""


def _pairs(labels: Labels) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in labels._asdict().items())


def _escaped(text: str) -> str:
    for mark, written in _ESCAPES:
        text = text.replace(mark, written)
    return text


_ESCAPES: Iterable[tuple[str, str]] = (("\\", r"\\"), ('"', r"\""), ("\n", r"\n"))
