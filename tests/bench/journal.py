"""What an event costs in the journal, over a real run of the trainer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from .figures import Figure
from .place import Place
from .trainer import trained


def measure(place: Place) -> Iterator[Figure]:
    """Bytes a line, by kind where it matters."""
    from json import loads

    count: Counter[str] = Counter()
    size: Counter[str] = Counter()
    with open(trained(place)[0], "rb") as lines:
        for line in lines:
            kind = loads(line)["kind"]
            count[kind] += 1
            size[kind] += len(line)
    most = ", ".join(f"{kind} {size[kind] / count[kind]:.0f} × {count[kind]}" for kind, _ in size.most_common(3))
    yield Figure(
        what="journal: bytes an event", unit="B", ours=size.total() / count.total(), bound=250,
        note=f"{count.total()} events; {most}",
    )  # fmt: skip
